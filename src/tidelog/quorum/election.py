"""The rules by which a replica grants votes (KIP-595) and pre-votes (KIP-996). Pure."""

from typing import NamedTuple

from tidelog.model import NO_LEADER
from tidelog.quorum.state_file import ElectionState
from tidelog.quorum.states import Candidate, Follower, Leader, State
from tidelog.quorum.voters import NOBODY, ReplicaKey


class LogEnd(NamedTuple):
    """How complete a log is: they are compared in this order. `epoch` is that of the last record, 0 without any."""

    epoch: int
    offset: int


def is_complete(candidate: LogEnd, own: LogEnd) -> bool:
    """The log rule: a replica whose log is less complete may lack what was committed."""
    return candidate >= own


def may_grant_pre_vote(state: State, candidate: LogEnd, own: LogEnd) -> bool:
    """Whether the candidate may begin an election. While a leader is alive, nobody may."""
    if isinstance(state, Leader) or (isinstance(state, Follower) and state.has_fetched and not state.leader_left):
        return False
    return is_complete(candidate, own)


def may_grant_vote(state: State, election: ElectionState, key: ReplicaKey, candidate: LogEnd, own: LogEnd) -> bool:
    """Whether this replica votes for the candidate in its epoch. A vote that was granted is granted again, because
    its answer may have been lost, but not for a log that is less complete now."""
    if election.voted != NOBODY:
        return election.voted == key and is_complete(candidate, own)
    if isinstance(state, Candidate | Leader) or election.leader != NO_LEADER:
        return False
    return is_complete(candidate, own)
