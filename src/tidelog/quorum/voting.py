"""Who leads: epochs, votes and states of one replica of the metadata quorum (KIP-595, KIP-996, KIP-853).

`states` has what each state is, `election` when votes are granted, `outbox` why nothing is sent before its reason is
durable. `quorum` adds what followers and leaders do with the log.

A voter moves on by timers, each a multiple of `Options`, and all random waits come from `dice(low, high)`. A timer that
measures the others does not run while this replica's own disk holds back what it would send them.

An election that cannot be won any more is tried again after a random wait, whose bound doubles each time (Kafka's
exponential backoff). The timer of the election is only for voters that do not answer at all. So two voters that took
each other's votes, or one that asked before the others missed the leader, lose some tens of milliseconds.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.errors import CorruptLog, ErrorCode
from tidelog.model import NO_LEADER, Time, is_any_address
from tidelog.quorum import requests
from tidelog.quorum.election import LogEnd, may_grant_pre_vote, may_grant_vote
from tidelog.quorum.options import DEFAULTS, Options
from tidelog.quorum.outbox import VOTES, Asked, Outbox
from tidelog.quorum.replica import Replica
from tidelog.quorum.requests import LeaderAndEpoch, Message
from tidelog.quorum.state_file import FILE_NAME, ElectionState, format_state
from tidelog.quorum.states import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    State,
    Tally,
    Unattached,
)
from tidelog.quorum.voters import NOBODY, ReplicaKey, VoterSet
from tidelog.wire.messages.cluster import quorum_elections as elections
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint

RANK_MS = 50
"""How much later each voter starts an election than the one before it, where all of them have the same reason."""
ELECTION_BACKOFF_MS = 100
"""The most that a voter waits after the first election that it lost."""
RETRIES_A_TIMEOUT = 8
"""A request that fails again and again is sent at least so often within the fetch timeout."""
MOST_EPOCH = 2**31 - 2
"""The highest that another node may name: the next one can still be written."""
NEVER = 2**63 - 1

Dice = Callable[[int, int], int]


class QuorumConfig(NamedTuple):
    """What makes a replica of a quorum: its key, its files as they were opened, and its options. `bootstrap` are nodes
    that an observer asks who leads; `endpoints` are where this replica is reached."""

    me: ReplicaKey
    cluster_id: str
    replica: Replica
    state: ElectionState
    dice: Dice
    options: Options = DEFAULTS
    bootstrap: Sequence[int] = ()
    endpoints: Sequence[VoterEndpoint] = ()


class Voting:
    """The part of a replica that decides who leads. `_entered` is where the parts above it see a new state."""

    def __init__(self, config: QuorumConfig) -> None:
        me, replica, state = config.me, config.replica, config.state
        if replica.log_end.epoch > state.epoch:
            raise CorruptLog(
                f"{replica.log.folder}/{FILE_NAME}: the log has records of epoch {replica.log_end.epoch}, but the "
                f"last epoch known here is {state.epoch}; remove this voter, format its folder and add it again"
            )
        self.me = me
        self.replica = replica
        self.election = state
        self.state: State = Unattached(0)
        self.options = config.options
        self._cluster_id = config.cluster_id
        self._dice = config.dice
        self._endpoints = list(config.endpoints)
        self._leader_place: tuple[int, list[VoterEndpoint]] = (NO_LEADER, [])
        """A leader, and where it is reached by what it said itself, or an answer did. It may have moved, and the voter
        set here may be older than that."""
        self._bootstrap = tuple(node for node in config.bootstrap if node != me.id)
        self._outbox = Outbox(f"{replica.log.folder}/{FILE_NAME}")
        self._strangers: set[int] = set()
        """Nodes that belong to another cluster, by their last answers."""
        self._retry_at: dict[tuple[Any, ...], int] = {}
        """When a request that failed may be sent again, by what it is about."""
        self._failures: dict[tuple[Any, ...], int] = {}
        """How often such a request failed, one time after the other, in this epoch."""
        self._lost_elections = 0
        """Since a leader was there."""
        self.is_called_leader = False
        """The last that another node said of the present epoch: that this one leads, which it does not."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.me.id}, epoch {self.epoch}, {self.state}, {self.replica})"

    # What it is

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def voters(self) -> VoterSet:
        return self.replica.voters.latest

    @property
    def is_voter(self) -> bool:
        return self.me in self.voters

    @property
    def stands(self) -> bool:
        """Whether it stands for election. A voter does until its removal is committed, as far as it knows, although its
        own vote does not count any more: perhaps nobody else has all that was committed."""
        voters, high_watermark = self.replica.voters, self.replica.high_watermark
        return self.is_voter or (voters.latest_offset >= high_watermark and self.me in voters.at(high_watermark))

    @property
    def is_alone(self) -> bool:
        """Whether nobody else votes."""
        return self.is_voter and len(self.voters) == 1

    @property
    def is_synced(self) -> bool:
        """Whether all that it has survives a power loss."""
        return self.replica.synced_end == self.replica.end

    @property
    def voted_for_me(self) -> bool:
        return self.election.voted == self.key_of(self.me.id, self.me.directory)

    def key_of(self, node: int, directory: bytes) -> ReplicaKey:
        """The node's key as votes and the leader have it: before kraft.version 1 without its directory."""
        return ReplicaKey(node, directory) if self.voters.directories else ReplicaKey(node)

    @property
    def standing(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.election.leader, self.epoch)

    @property
    def strangers(self) -> list[int]:
        """The controllers of another cluster, if they are so many that the others are no majority."""
        known = self.voters.ids or self._bootstrap
        found = sorted(self._strangers.intersection(known))
        return found if len(known) - len(found) < len(known) // 2 + 1 and found else []

    def _note_cluster(self, node: int, response: Message) -> None:
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._strangers.add(node)
        else:
            self._strangers.discard(node)

    # Transitions

    def _begin(self, now: Time) -> None:
        """Enter the state that follows from the file, which is written again before anything is sent: if its folder
        could not be synced, it may be in the page cache only."""
        mono = now.mono
        if self.election.leader == self.me.id and not self.stands:
            # It led until it was removed: it will not lead this epoch again, and keeps its vote.
            self.election = self.election._replace(leader=NO_LEADER)
        self._save()
        others = tuple(voter for voter in self.voters.ids if voter != self.me.id)
        if self.stands and self.election.leader == self.me.id:
            self.state = Resigned(mono + self._election_timeout(), others, set(others))
        elif self.stands and self.voted_for_me:
            self.state = Candidate(Tally(self.voters), mono + self._election_timeout())
        elif self.election.leader != NO_LEADER:
            self.state = Follower(self.election.leader, mono + self.options.fetch_timeout_ms)
        else:
            self.state = Unattached(mono + (self.voters.rank(self.me.id) * RANK_MS if self.stands else 0))

    def _become(self, state: State, now: Time) -> None:
        before = self.state
        assert type(state) in TRANSITIONS[type(before)], (before, state)
        self.state = state
        self._outbox.event(
            "quorum.state", node=self.me.id, state=type(state).__name__, epoch=self.epoch, leader=self.election.leader
        )
        self._entered(before, now)

    def _entered(self, before: State, now: Time) -> None:
        """The state is another one now."""

    def _change(self, *, epoch: int | None = None, leader: int = NO_LEADER, voted: ReplicaKey | None = None) -> None:
        """Change what must be durable before the next message."""
        if epoch is not None and epoch > self.epoch:
            self.election = ElectionState(epoch)
            self._failures.clear()
        self.election = self.election._replace(leader=leader, voted=self.election.voted if voted is None else voted)
        self._save()

    def _save(self) -> None:
        directories = self.voters.directories
        self._outbox.save(
            format_state(self.election, directories=directories, cluster_id=self._cluster_id, voters=self.voters.ids)
        )

    def _saved(self, now: Time) -> None:
        """The change is durable, and what waited for it is sent now: the others get their full time from now on."""
        state, mono = self.state, now.mono
        if isinstance(state, Candidate) and self.voted_for_me:
            state.tally.granted.add(self.me.id)
        if isinstance(state, Candidate | Prospective) and mono >= state.deadline:
            state.deadline = mono + self._election_timeout()
        elif isinstance(state, Follower) and not state.leader_left:
            state.deadline = max(state.deadline, mono + self.options.fetch_timeout_ms)
        elif isinstance(state, Leader):
            state.since = mono

    def _unattached(self, epoch: int, now: Time) -> None:
        """A higher epoch without a known leader. An election timer goes on."""
        if isinstance(self.state, Unattached):
            deadline = self.state.deadline
        else:
            deadline = now.mono + (self._election_timeout() if self.stands else 0)
        self._change(epoch=epoch)
        self._become(Unattached(deadline), now)

    def _follow(self, leader: int, epoch: int, now: Time) -> None:
        self._change(epoch=epoch, leader=leader)
        self._become(Follower(leader, now.mono + self.options.fetch_timeout_ms), now)

    def _learn(self, standing: LeaderAndEpoch, now: Time) -> None:
        """Who leads in which epoch, by what another node sent."""
        leader, epoch = standing
        if epoch < self.epoch:
            return
        self.is_called_leader = leader == self.me.id and not isinstance(self.state, Leader)
        if leader in (NO_LEADER, self.me.id):
            if epoch > self.epoch:
                self._unattached(epoch, now)
        elif epoch > self.epoch or self.election.leader == NO_LEADER:
            self._follow(leader, epoch, now)
        else:
            assert leader == self.election.leader, f"epoch {epoch} has the leaders {self.election.leader} and {leader}"

    def _resign(self, leader: Leader, now: Time) -> None:
        others = [voter for voter in self.voters.ids if voter != self.me.id]
        ends = leader.ends_of(self.voters)
        others.sort(key=lambda voter: ends.get(voter, -1), reverse=True)
        self._become(Resigned(now.mono + self._election_timeout(), tuple(others), set(others)), now)

    def _election_timeout(self) -> int:
        """A voter that is alone has nobody to wait for."""
        return (
            0 if self.is_alone else self._dice(self.options.election_timeout_ms, 2 * self.options.election_timeout_ms)
        )

    def _election_backoff(self) -> int:
        """How long a voter waits before its next election, after one that it lost."""
        most = min(ELECTION_BACKOFF_MS << self._lost_elections, self.options.election_backoff_max_ms)
        if most < self.options.election_backoff_max_ms:
            self._lost_elections += 1
        return self._dice(min(most, 1), most)

    def _retry_later(self, about: tuple[Any, ...], now: Time) -> None:
        """A request failed: send it again after a while, twice as long each time."""
        options, failures = self.options, self._failures.get(about, 0)
        longest = max(options.fetch_timeout_ms // RETRIES_A_TIMEOUT, options.retry_backoff_ms)
        wait = min(options.retry_backoff_ms << failures, longest)
        if wait < longest:
            self._failures[about] = failures + 1
        self._retry_at[about] = now.mono + wait

    def _is_over(self, deadline: int, now: Time) -> bool:
        """Whether the others had their time."""
        return now.mono >= deadline and self._outbox.is_saved

    def _check_leader(self, epoch: int) -> ErrorCode:
        if epoch < 0:
            return ErrorCode.INVALID_REQUEST
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _retry_unless(self, has_progress: bool, asked: Asked, now: Time) -> None:
        """The leader answers such a request at once: without progress it would be sent again at once, for ever."""
        if has_progress:
            self._failures.pop(asked.about, None)
        else:
            self._retry_later(asked.about, now)

    # What a state without a leader does, until it waits for something

    def _prospective(self, now: Time, *, leader_left: bool = False) -> Prospective:
        """The leader that is missed, if one is known, is not counted on."""
        tally = Tally(self.voters, {self.me.id}, doubtful={self.election.leader})
        return Prospective(tally, now.mono + self._election_timeout(), leader_left)

    def _act_prospective(self, state: Prospective, now: Time) -> None:
        if state.tally.is_won:
            self._change(epoch=self.epoch + 1, voted=self.key_of(*self.me))
            tally = Tally(self.voters, doubtful=state.tally.doubtful)
            self._become(Candidate(tally, now.mono + self._election_timeout()), now)
        elif state.tally.is_lost or self._is_over(state.deadline, now):
            again_at = now.mono + self._election_backoff()
            if self.election.leader != NO_LEADER:
                follower = Follower(self.election.leader, again_at, leader_left=state.leader_left)
                follower.left_after = self._outbox.last_token
                self._become(follower, now)
            else:
                self._become(Unattached(again_at), now)
        else:
            self._request_votes(state.tally, pre_vote=True)

    def _act_candidate(self, state: Candidate, now: Time) -> None:
        if state.tally.is_won:
            self._change(leader=self.me.id)
            self._become(Leader(self.replica.end, now.mono), now)
        elif self._is_over(state.deadline, now):
            self._become(self._prospective(now), now)
        else:
            if state.tally.is_lost and not state.is_lost:
                # Not at once: the others may be candidates, too, and would lose again.
                state.is_lost = True
                state.deadline = min(state.deadline, now.mono + self._election_backoff())
            self._request_votes(state.tally, pre_vote=False)

    def _request_votes(self, tally: Tally, *, pre_vote: bool) -> None:
        """Once the log is synced: votes for a longer log than the one that survives a power loss could elect a
        replica that lacks what was committed."""
        if not self.is_synced:
            return
        for voter in tally.missing:
            about = ("vote", voter, self.epoch, pre_vote)
            if voter != self.me.id and about not in self._retry_at:
                key = tally.voters.key_of(voter)
                request = requests.vote_request(
                    self._cluster_id, self.me, key, self.epoch, self.replica.log_end, pre_vote=pre_vote
                )
                self._outbox.ask(voter, request, VOTES, about)

    def _act_resigned(self, state: Resigned, now: Time) -> None:
        if now.mono >= state.deadline:
            self._change(epoch=self.epoch + 1)
            self._become(Unattached(now.mono + (self._election_timeout() if self.stands else 0)), now)
            return
        preferred = [self.voters.key_of(voter) for voter in state.candidates if voter in self.voters.ids]
        for voter in sorted(state.unacknowledged):
            about = ("end", voter, self.epoch)
            if about not in self._retry_at:
                self._outbox.ask(voter, requests.end_request(self._cluster_id, self.standing, preferred), VOTES, about)

    # Leading

    def _announce(self, state: Leader, now: Time) -> None:
        """To the voters that do not fetch."""
        fetched_at, timeout = state.fetched_at_of(self.voters), self.options.fetch_timeout_ms
        for voter in self.voters.ids:
            silent = now.mono - fetched_at.get(voter, state.since - timeout)
            if voter != self.me.id and silent >= timeout // 2:
                key = self.voters.key_of(voter)
                begun = requests.begin_request(self._cluster_id, key, self.standing, self._endpoints)
                self._outbox.ask(voter, begun, VOTES, ("begin", voter, self.epoch))

    def _leader_until(self, state: Leader) -> int:
        """A leader that a majority has not fetched from for so long may have a successor."""
        if self.is_alone:
            return NEVER
        heard = state.fetched_at_of(self.voters)
        if self.is_voter:
            heard[self.me.id] = 2**62
        return self.voters.reached_by_majority(heard, state.since) + self.options.fetch_timeout_ms * 3 // 2

    # Requests of others

    def _check_voter(self, epoch: int, node: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if node < 0 or not 0 <= epoch <= MOST_EPOCH else ErrorCode.NONE

    def _check_claim(self, claimed: LeaderAndEpoch) -> ErrorCode:
        """Of a request that names its sender the leader."""
        code = self._check_voter(claimed.epoch, claimed.leader)
        has_another = claimed.epoch == self.epoch and self.election.leader not in (NO_LEADER, claimed.leader)
        return ErrorCode.INVALID_REQUEST if has_another and code == ErrorCode.NONE else code

    def _is_me(self, voter: int, directory: bytes) -> bool:
        is_directory = directory in (NOBODY.directory, self.me.directory) or not self.voters.directories
        return voter in (-1, self.me.id) and is_directory

    def _vote_requested(self, request: elections.VoteRequest, partition: Any, now: Time) -> Message:
        epoch = partition.replica_epoch
        key = self.key_of(partition.replica_id, partition.replica_directory_id)
        end = LogEnd(partition.last_offset_epoch, partition.last_offset)
        least = epoch if partition.pre_vote else epoch - 1
        code = ErrorCode.INVALID_REQUEST
        if end.offset >= 0 and 0 <= end.epoch <= least:
            code = self._check_voter(epoch, key.id)
        if code != ErrorCode.NONE:
            return requests.vote_response(self.standing, code)
        if epoch > self.epoch:
            self._unattached(epoch, now)
        if not self._is_me(request.voter_id, partition.voter_directory_id):
            return requests.vote_response(self.standing, ErrorCode.INVALID_VOTER_KEY)
        own = self.replica.log_end
        if partition.pre_vote:
            granted = may_grant_pre_vote(self.state, end, own)
        else:
            granted = may_grant_vote(self.state, self.election, key, end, own)
            if granted and self.election.voted != key:
                self._change(voted=key)
                if isinstance(self.state, Unattached):
                    self.state.deadline = now.mono + self._election_timeout()
        return requests.vote_response(self.standing, ErrorCode.NONE, granted=granted)

    def _epoch_begun(self, request: elections.BeginQuorumEpochRequest, partition: Any, now: Time) -> ErrorCode:
        claimed = LeaderAndEpoch(partition.leader_id, partition.leader_epoch)
        code = self._check_claim(claimed)
        if code == ErrorCode.NONE:
            self._learn(claimed, now)
            self._place_leader(claimed.leader, requests.endpoints_of_leader(request))
            if isinstance(self.state, Prospective) and self.election.leader == partition.leader_id:
                self._follow(partition.leader_id, self.epoch, now)
            if not self._is_me(request.voter_id, partition.voter_directory_id):
                code = ErrorCode.INVALID_VOTER_KEY
        return code

    def _place_leader(self, node: int, endpoints: Sequence[VoterEndpoint]) -> None:
        told = [each for each in endpoints if not is_any_address(each.host)]
        if told and node == self.election.leader:
            self._leader_place = (node, told)

    def _epoch_ended(self, partition: Any, now: Time) -> ErrorCode:
        claimed = LeaderAndEpoch(partition.leader_id, partition.leader_epoch)
        code = self._check_claim(claimed)
        if code == ErrorCode.NONE:
            self._learn(claimed, now)
            if isinstance(self.state, Follower) and self.state.leader == partition.leader_id:
                self._leader_left(self.state)
                preferred = [candidate.candidate_id for candidate in partition.preferred_candidates]
                if self.me.id in preferred:
                    place = preferred.index(self.me.id)
                    wait = place * self.options.election_backoff_max_ms // (2 * len(preferred))
                    self.state.deadline = min(self.state.deadline, now.mono + wait)
        return code

    def _leader_left(self, state: Follower) -> None:
        """Answers that are on their way were sent before that: only to later requests they say that it is there."""
        state.leader_left, state.has_fetched = True, False
        state.left_after = self._outbox.last_token
