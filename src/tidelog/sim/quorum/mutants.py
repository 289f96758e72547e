"""Mutants of the quorum: each leaves out one decision of the core, and some seed must show it.

A check that no mutant breaks is worth nothing, and a rule that no check misses is either superfluous or untested.
"""

# ruff: noqa: SLF001  (a replacement has the parameters of what it replaces, and its place inside)

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from tidelog.effects import Effect
from tidelog.log.log import Log
from tidelog.partition.truncation import EpochEnd
from tidelog.quorum import election, replica, voting
from tidelog.quorum.election import LogEnd
from tidelog.quorum.outbox import Outbox
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.replica import Replica
from tidelog.quorum.state_file import ElectionState
from tidelog.quorum.states import Leader, State
from tidelog.quorum.voters import VoterKey


class Mutant(NamedTuple):
    """`seed` shows it. `where` has the attribute `name`, which the mutant replaces."""

    where: Any
    name: str
    replacement: Callable[..., Any]
    seed: int


def send_at_once(outbox: Outbox, effect: Effect) -> None:
    """A message does not wait until its reason is durable."""
    outbox._out.append(effect)


def any_log(candidate: LogEnd, own: LogEnd) -> bool:  # noqa: ARG001
    """A candidate with a shorter log gets votes."""
    return True


def commit_older_epochs(machine: Quorum, state: Leader) -> None:
    """What a majority has is committed, whatever epoch it is of."""
    ends = state.ends_of(machine.voters)
    if machine.is_voter:
        ends[machine.me.id] = machine.replica.synced_end
    machine.replica.raise_high_watermark(machine.voters.reached_by_majority(ends, 0))


def ask_unsynced(machine: Quorum) -> bool:  # noqa: ARG001
    """A replica fetches from where its log ends, and requests votes for all of it, synced or not."""
    return True


def only_sync(log: Log) -> None:
    """The tail is synced at the start, but not written again."""
    log.durability.dirty = True


def cut_everything(log: Replica, leader: EpochEnd) -> int:  # noqa: ARG001
    """A log that diverges starts over, below the high watermark."""
    log.log.truncate_to(0)
    log.voters.cut(0)
    log.high_watermark = 0
    return 0


def vote_again(state: State, election_state: ElectionState, key: VoterKey, candidate: LogEnd, own: LogEnd) -> bool:  # noqa: ARG001
    """Every candidate with a complete log gets a vote."""
    return candidate >= own


MUTANTS: dict[str, Mutant] = {
    "send_before_file": Mutant(Outbox, "_send", send_at_once, 12),
    "shorter_log_wins": Mutant(election, "is_complete", any_log, 6),
    "older_epoch_commits": Mutant(Quorum, "_advance", commit_older_epochs, 0),
    "unsynced_fetch_offset": Mutant(Quorum, "_is_synced", ask_unsynced, 0),
    "tail_not_rewritten": Mutant(replica, "write_again", only_sync, 0),
    "cut_below_high_watermark": Mutant(Replica, "cut", cut_everything, 5),
    "votes_twice": Mutant(voting, "may_grant_vote", vote_again, 9),
}


@contextmanager
def applied(name: str) -> Iterator[Mutant]:
    """The core as this mutant has it."""
    mutant = MUTANTS[name]
    with ExitStack() as stack:
        stack.enter_context(patch.object(mutant.where, mutant.name, mutant.replacement))
        yield mutant
