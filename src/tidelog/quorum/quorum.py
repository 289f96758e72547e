"""One replica of the metadata quorum as a state machine: requests, answers, time and finished writes → effects.

It follows Kafka's KRaft: KIP-595 (elections and fetches), KIP-996 (pre-votes), KIP-853 (voters with directory IDs).
`states` has what each state is, `election` when votes are granted, `outbox` why nothing is sent before its reason is
durable, `replica` which part of the log counts. The leader of an epoch has the votes of a majority; what a majority has
synced is committed, once that includes the leader's own first record.

A voter moves on by timers, each a multiple of `Options`, and all random waits come from `dice(low, high)`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.effects import Effect
from tidelog.errors import ApiError, CorruptLog, ErrorCode
from tidelog.model import NO_LEADER, Time
from tidelog.quorum import requests
from tidelog.quorum.committed_file import CommittedState, format_committed
from tidelog.quorum.control_records import Control, control_batch, leader_change, voter_record
from tidelog.quorum.election import LogEnd, may_grant_pre_vote, may_grant_vote
from tidelog.quorum.outbox import FETCHES, VOTES, Asked, Outbox
from tidelog.quorum.replica import SAVE_EVERY_MS, Replica
from tidelog.quorum.requests import Message, Position, Standing
from tidelog.quorum.state_file import FILE_NAME, ElectionState, format_state
from tidelog.quorum.states import (
    FOLLOWING,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    State,
    Tally,
    Unattached,
)
from tidelog.quorum.voters import NOBODY, VoterKey, Voters
from tidelog.wire.messages.cluster import quorum_elections as elections
from tidelog.wire.messages.cluster.metadata_log import (
    KRaftVersionRecord,
    VotersRecord,
)
from tidelog.wire.messages.records import fetch
from tidelog.wire.records import BatchBuilder, Record

RANK_MS = 50
"""How much later each voter starts an election than the one before it, where all of them have the same reason."""


class Options(NamedTuple):
    """`controller.quorum.…`, in milliseconds, and the bytes of one fetch."""

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 20
    fetch_wait_ms: int = 500
    fetch_bytes: int = 1_048_576


class Waiting(NamedTuple):
    """A fetch that waits for records or for a higher high watermark."""

    token: int
    partition: Any
    deadline: int


Dice = Callable[[int, int], int]


class Quorum:
    """`effects` returns what the inputs since the last call require. `bootstrap` are nodes that an observer asks who
    leads."""

    def __init__(
        self,
        me: VoterKey,
        cluster_id: str,
        replica: Replica,
        state: ElectionState,
        *,
        dice: Dice,
        options: Options | None = None,
        bootstrap: Sequence[int] = (),
    ) -> None:
        if replica.log_end.epoch > state.epoch:
            raise CorruptLog(
                f"{replica.log.folder}/{FILE_NAME}: the log has records of epoch {replica.log_end.epoch}, but the "
                f"last epoch known here is {state.epoch}; remove this voter, format its folder and add it again"
            )
        self.me = me
        self.replica = replica
        self.election = state
        self.state: State = Unattached(0)
        self.options = options or Options()
        self._cluster_id = cluster_id
        self._dice = dice
        self._bootstrap = tuple(node for node in bootstrap if node != me.id)
        self._outbox = Outbox(f"{replica.log.folder}/{FILE_NAME}")
        self._retry_at: dict[tuple[Any, ...], int] = {}
        """When a request that failed may be sent again, by what it is about."""
        self._syncing: tuple[int, int] | None = None
        """The token of the sync in progress, and the log's end when it began."""
        self._saving: tuple[int, CommittedState] | None = None
        """The token of the write of `committed-state` in progress, and what it will say."""
        self._save_at = 0
        """When it may be written again (monotonic ms)."""
        self._waiting: list[Waiting] = []

    def __repr__(self) -> str:
        return f"Quorum({self.me.id}, epoch {self.epoch}, {self.state}, {self.replica})"

    # What it is

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def voters(self) -> Voters:
        return self.replica.voters.latest

    @property
    def is_voter(self) -> bool:
        return self.me in self.voters

    @property
    def is_in_office(self) -> bool:
        """Whether it leads and its first record is committed: only then its high watermark is not below one that an
        earlier leader gave out."""
        return isinstance(self.state, Leader) and self.replica.high_watermark > self.state.epoch_start

    @property
    def _voted_for_me(self) -> bool:
        return self.election.voted == self._key_of(self.me.id, self.me.directory)

    def _key_of(self, node: int, directory: bytes) -> VoterKey:
        """The node's key as votes have it: before kraft.version 1 without its directory."""
        return VoterKey(node, directory) if self.voters.directories else VoterKey(node)

    @property
    def standing(self) -> Standing:
        return Standing(self.election.leader, self.epoch)

    @property
    def next_deadline(self) -> int:
        """When to call `wake` (monotonic ms)."""
        moments = [self._state_deadline(), *self._retry_at.values()]
        if self._saving is None and self.replica.to_save != self.replica.saved:
            moments.append(self._save_at)
        return min([*moments, *(waiting.deadline for waiting in self._waiting)])

    def _state_deadline(self) -> int:
        state = self.state
        if not isinstance(state, Leader):
            return state.deadline
        return min(self._leader_until(state), state.announced_at + self.options.fetch_timeout_ms // 2)

    def effects(self) -> list[Effect]:
        return self._outbox.drain()

    # Inputs

    def start(self, now: Time) -> None:
        """Begin in the state of the file, which is written again before anything is sent: if its folder could not be
        synced, it may be in the page cache only."""
        self._save()
        election, mono = self.election, now.mono
        others = tuple(voter for voter in self.voters.ids if voter != self.me.id)
        if self.is_voter and election.leader == self.me.id:
            self.state = Resigned(mono + self._election_timeout(), others, set(others))
        elif self.is_voter and self._voted_for_me:
            self.state = Candidate(Tally(self.voters), mono + self._election_timeout())
        elif election.leader not in (NO_LEADER, self.me.id):
            self.state = Follower(election.leader, mono + self.options.fetch_timeout_ms)
        else:
            self.state = Unattached(mono + (self.voters.rank(self.me.id) * RANK_MS if self.is_voter else 0))
        self._sync()
        self._act(now)

    def request(self, token: int, request: Message, now: Time) -> None:
        """A request of another node; answered by `Reply`, sometimes later."""
        if request.cluster_id not in (None, self._cluster_id):
            self._outbox.reply(token, requests.refused(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        partition = requests.only_partition(request)
        if partition is None:
            self._outbox.reply(token, requests.refused(request, ErrorCode.INVALID_REQUEST))
            return
        match request:
            case elections.VoteRequest():
                self._outbox.reply(token, self._vote(request, partition, now))
            case elections.BeginQuorumEpochRequest():
                code = self._begin(request, partition, now)
                self._outbox.reply(token, requests.epoch_response(request, self.standing, code))
            case elections.EndQuorumEpochRequest():
                code = self._end(partition, now)
                self._outbox.reply(token, requests.epoch_response(request, self.standing, code))
            case fetch.FetchRequest():
                self._fetch(token, request, partition, now)
        self._act(now)

    def answered(self, token: int, response: Message | None, now: Time) -> None:
        """The answer to a request of this node; None if there is none."""
        asked = self._outbox.answered(token)
        partition = requests.answered_partition(response) if response is not None else None
        if partition is None:
            self._retry_at[asked.about] = now.mono + self.options.retry_backoff_ms
        else:
            self._retry_at.pop(asked.about, None)
            before = self.state
            self._learn(requests.standing_of(partition), now)
            if self.state is before:
                self._use_answer(asked, partition, now)
        self._act(now)

    def synced(self, token: int, now: Time) -> None:
        """A `Sync` or a `Replace` ended well. If one fails, the process must end."""
        if self._syncing is not None and self._syncing[0] == token:
            self.replica.synced(self._syncing[1])
            self._syncing = None
            self._sync()
        elif self._saving is not None and self._saving[0] == token:
            self.replica.saved, self._saving = self._saving[1], None
        elif self._outbox.saved(token) and isinstance(self.state, Candidate) and self._voted_for_me:
            self.state.tally.granted.add(self.me.id)
        self._act(now)

    def wake(self, now: Time) -> None:
        """Time passed."""
        self._retry_at = {about: at for about, at in self._retry_at.items() if at > now.mono}
        self._act(now)

    def gone(self, node: int, now: Time) -> None:
        """A connection to the node broke, and a new one was refused: its process is dead, or was."""
        if isinstance(self.state, Follower) and self.state.leader == node:
            self.state.leader_left = True
            self.state.has_fetched = False
            if self.is_voter:
                soon = now.mono + self.voters.rank(self.me.id, behind=node) * RANK_MS
                self.state.deadline = min(self.state.deadline, soon)
            self._act(now)

    def resign(self, now: Time) -> None:
        """Stop leading: the voters elect another leader, who may be this one again."""
        if isinstance(self.state, Leader):
            self._resign(self.state, now)
            self._act(now)

    def append(self, values: Sequence[bytes], now: Time) -> int:
        """Append records as leader, in one batch; returns the first offset. Raises ApiError NOT_LEADER_OR_FOLLOWER."""
        if not isinstance(self.state, Leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        batch = BatchBuilder()
        for value in values:
            batch.append(Record(timestamp=now.wall, value=value))
        offset = self.replica.append(batch.build(), self.epoch, now)
        self._sync()
        self._act(now)
        return offset

    # Transitions

    def _become(self, state: State, now: Time) -> None:
        before = self.state
        assert type(state) in FOLLOWING[type(before)], (before, state)
        self.state = state
        self._outbox.event(
            "quorum.state", node=self.me.id, state=type(state).__name__, epoch=self.epoch, leader=self.election.leader
        )
        if isinstance(before, Leader):
            for waiting in self._waiting:
                self._reply_fetch(waiting.token, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._waiting = []
        if isinstance(state, Leader):
            self._begin_office(now)

    def _change(self, *, epoch: int | None = None, leader: int = NO_LEADER, voted: VoterKey | None = None) -> None:
        """Change what must be durable before the next message."""
        if epoch is not None and epoch > self.epoch:
            self.election = ElectionState(epoch)
        self.election = self.election._replace(leader=leader, voted=self.election.voted if voted is None else voted)
        self._save()

    def _save(self) -> None:
        directories = self.voters.directories
        self._outbox.save(
            format_state(self.election, directories=directories, cluster_id=self._cluster_id, voters=self.voters.ids)
        )

    def _unattached(self, epoch: int, now: Time) -> None:
        """A higher epoch without a known leader. An election timer goes on."""
        if isinstance(self.state, Unattached):
            deadline = self.state.deadline
        else:
            deadline = now.mono + (self._election_timeout() if self.is_voter else 0)
        self._change(epoch=epoch)
        self._become(Unattached(deadline), now)

    def _follow(self, leader: int, epoch: int, now: Time) -> None:
        self._change(epoch=epoch, leader=leader)
        self._become(Follower(leader, now.mono + self.options.fetch_timeout_ms), now)

    def _learn(self, standing: Standing, now: Time) -> None:
        """Who leads in which epoch, by what another node sent."""
        leader, epoch = standing
        if epoch < self.epoch:
            return
        if leader in (NO_LEADER, self.me.id):
            if epoch > self.epoch:
                self._unattached(epoch, now)
        elif epoch > self.epoch or self.election.leader == NO_LEADER:
            self._follow(leader, epoch, now)
        else:
            assert leader == self.election.leader, f"epoch {epoch} has the leaders {self.election.leader} and {leader}"

    def _resign(self, leader: Leader, now: Time) -> None:
        others = [voter for voter in self.voters.ids if voter != self.me.id]
        others.sort(key=lambda voter: leader.ends.get(voter, -1), reverse=True)
        self._become(Resigned(now.mono + self._election_timeout(), tuple(others), set(others)), now)

    def _election_timeout(self) -> int:
        return self._dice(self.options.election_timeout_ms, 2 * self.options.election_timeout_ms)

    # What the present state does, until it waits for something

    def _act(self, now: Time) -> None:
        before = None
        while before is not self.state:
            before = self.state
            match before:
                case Unattached():
                    self._act_unattached(before, now)
                case Follower():
                    self._act_follower(before, now)
                case Prospective():
                    self._act_prospective(before, now)
                case Candidate():
                    self._act_candidate(before, now)
                case Leader():
                    self._act_leader(before, now)
                case Resigned():
                    self._act_resigned(before, now)
        self._save_committed(now)

    def _act_unattached(self, state: Unattached, now: Time) -> None:
        if now.mono < state.deadline:
            return
        if self.is_voter:
            self._become(self._prospective(now), now)
            return
        state.deadline = now.mono + self.options.fetch_timeout_ms
        known = [node for node in dict.fromkeys((*self.voters.ids, *self._bootstrap)) if node != self.me.id]
        if known:
            self._ask_for_records(known[self._dice(0, len(known) - 1)])
            state.deadline = now.mono + self._dice(1, self.options.fetch_timeout_ms // 2)

    def _prospective(self, now: Time, *, leader_left: bool = False) -> Prospective:
        return Prospective(Tally(self.voters, {self.me.id}), now.mono + self._election_timeout(), leader_left)

    def _act_follower(self, state: Follower, now: Time) -> None:
        if now.mono >= state.deadline:
            if self.is_voter:
                self._become(self._prospective(now, leader_left=state.leader_left), now)
            else:
                self._change()
                self._become(Unattached(now.mono), now)
        else:
            self._ask_for_records(state.leader)

    def _ask_for_records(self, target: int) -> None:
        """Fetch from the end once it is synced: for the leader, everything before it is synced here."""
        about = ("fetch", target, self.epoch)
        if about in self._retry_at or not self._is_synced():
            return
        position = Position(self.replica.log_end, self.replica.high_watermark)
        options = self.options
        request = requests.fetch_request(
            self._cluster_id, self.me, self.epoch, position, wait_ms=options.fetch_wait_ms, most=options.fetch_bytes
        )
        self._outbox.ask(target, request, FETCHES, about)

    def _is_synced(self) -> bool:
        return self.replica.synced_end == self.replica.end

    def _act_prospective(self, state: Prospective, now: Time) -> None:
        if state.tally.is_won:
            self._change(epoch=self.epoch + 1, voted=self._key_of(*self.me))
            self._become(Candidate(Tally(self.voters), now.mono + self._election_timeout()), now)
        elif state.tally.is_lost or now.mono >= state.deadline:
            if self.election.leader != NO_LEADER:
                options = self.options
                wait = self._dice(1, options.election_backoff_max_ms) if state.leader_left else options.fetch_timeout_ms
                follower = Follower(self.election.leader, now.mono + wait, leader_left=state.leader_left)
                self._become(follower, now)
            else:
                self._become(Unattached(now.mono + self._election_timeout()), now)
        else:
            self._request_votes(state.tally, pre_vote=True)

    def _act_candidate(self, state: Candidate, now: Time) -> None:
        if state.tally.is_won:
            self._change(leader=self.me.id)
            self._become(Leader(self.replica.end, now.mono), now)
        elif now.mono >= state.deadline:
            self._become(self._prospective(now), now)
        elif state.tally.is_lost:
            # Not at once: the others may be candidates, too, and would lose again.
            state.deadline = min(state.deadline, now.mono + self._dice(1, self.options.election_backoff_max_ms))
        else:
            self._request_votes(state.tally, pre_vote=False)

    def _request_votes(self, tally: Tally, *, pre_vote: bool) -> None:
        """Once the log is synced: votes for a longer log than the one that survives a power loss could elect a
        replica that lacks what was committed."""
        if not self._is_synced():
            return
        for voter in tally.missing:
            about = ("vote", voter, self.epoch, pre_vote)
            if voter != self.me.id and about not in self._retry_at:
                key = tally.voters.key_of(voter)
                request = requests.vote_request(
                    self._cluster_id, self.me, key, self.epoch, self.replica.log_end, pre_vote=pre_vote
                )
                self._outbox.ask(voter, request, VOTES, about)

    def _act_leader(self, state: Leader, now: Time) -> None:
        if now.mono >= self._leader_until(state):
            self._resign(state, now)
            return
        self._advance(state)
        due = state.announced_at + self.options.fetch_timeout_ms // 2 <= now.mono
        if due:
            state.announced_at = now.mono
            for voter in self.voters.ids:
                silent = now.mono - state.fetched_at.get(voter, state.since - self.options.fetch_timeout_ms)
                if voter != self.me.id and silent >= self.options.fetch_timeout_ms // 2:
                    request = requests.begin_request(self._cluster_id, self.voters.key_of(voter), self.standing)
                    self._outbox.ask(voter, request, VOTES, ("begin", voter, self.epoch))
        self._answer_waiting(now)

    def _leader_until(self, state: Leader) -> int:
        """A leader that a majority has not fetched from for so long may have a successor."""
        if len(self.voters) == 1 and self.is_voter:
            return 2**63 - 1
        heard = {**state.fetched_at, self.me.id: 2**62} if self.is_voter else state.fetched_at
        return self.voters.reached_by_majority(heard, state.since) + self.options.fetch_timeout_ms * 3 // 2

    def _act_resigned(self, state: Resigned, now: Time) -> None:
        if now.mono >= state.deadline:
            self._change(epoch=self.epoch + 1)
            self._become(Unattached(now.mono + (self._election_timeout() if self.is_voter else 0)), now)
            return
        preferred = [self.voters.key_of(voter) for voter in state.candidates]
        for voter in sorted(state.untold):
            about = ("end", voter, self.epoch)
            if about not in self._retry_at:
                self._outbox.ask(voter, requests.end_request(self._cluster_id, self.standing, preferred), VOTES, about)

    # Leading

    def _begin_office(self, now: Time) -> None:
        """The leader's own first record: what earlier leaders wrote is committed with it."""
        voters = self.voters
        self._append_control([leader_change(self.me.id, voters)], now, int(voters.directories))
        if voters.directories and self.replica.voters.latest_offset < 0:
            everyone = VotersRecord(voters=[voter_record(key) for key in voters])
            self._append_control([KRaftVersionRecord(k_raft_version=1), everyone], now)
        self._sync()

    def _append_control(self, messages: Sequence[Control], now: Time, version: int = 0) -> None:
        batch = control_batch(
            messages, timestamp=now.wall, base_offset=self.replica.end, epoch=self.epoch, version=version
        )
        self.replica.append(batch, self.epoch, now)

    def _advance(self, state: Leader) -> None:
        """The high watermark: what a majority has synced, once that includes a record of this epoch. A majority that
        has records of an older epoch only may still be outvoted."""
        ends = {**state.ends, self.me.id: self.replica.synced_end} if self.is_voter else state.ends
        committed = self.voters.reached_by_majority(ends, 0)
        if committed > state.epoch_start and self.replica.raise_high_watermark(committed):
            self._outbox.event("quorum.committed", node=self.me.id, offset=committed, epoch=self.epoch)

    def _fetch(self, token: int, request: fetch.FetchRequest, partition: Any, now: Time) -> None:
        code = self._check_leader(partition)
        if code != ErrorCode.NONE or not isinstance(self.state, Leader):
            self._reply_fetch(token, code)
            return
        diverging = self.replica.diverging(partition.last_fetched_epoch, partition.fetch_offset)
        if diverging is not None:
            end = fetch.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
            self._reply_fetch(token, diverging_epoch=end)
            return
        key = VoterKey(request.replica_state.replica_id, partition.replica_directory_id)
        if key in self.voters:
            self.state.ends[key.id] = partition.fetch_offset
            self.state.fetched_at[key.id] = now.mono
            self._advance(self.state)
        elif key.id >= 0:
            self.state.observers[key.id] = (partition.fetch_offset, now.mono)
        deadline = now.mono + min(request.max_wait_ms, self.options.fetch_wait_ms)
        self._waiting.append(Waiting(token, partition, deadline))

    def _check_leader(self, partition: Any) -> ErrorCode:
        epoch = partition.current_leader_epoch
        if epoch < 0 or partition.fetch_offset < 0 or not 0 <= partition.last_fetched_epoch <= epoch:
            return ErrorCode.INVALID_REQUEST
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _answer_waiting(self, now: Time) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            offset = each.partition.fetch_offset
            if offset < self.replica.end:
                piece = self.replica.read(offset, min(each.partition.partition_max_bytes, self.options.fetch_bytes))
                self._reply_fetch(each.token, records=piece if piece is not None else b"")
            elif (
                self.is_in_office and each.partition.high_watermark < self.replica.high_watermark
            ) or each.deadline <= now.mono:
                self._reply_fetch(each.token)
            else:
                self._waiting.append(each)

    def _reply_fetch(self, token: int, code: ErrorCode = ErrorCode.NONE, **content: Any) -> None:
        is_known = code == ErrorCode.NONE and self.is_in_office
        high_watermark = self.replica.high_watermark if is_known else requests.NO_HIGH_WATERMARK
        self._outbox.reply(
            token, requests.fetch_response(self.standing, code, high_watermark=high_watermark, **content)
        )

    # Requests of others

    def _check_voter(self, epoch: int, node: int) -> ErrorCode:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.INVALID_REQUEST if node < 0 or epoch < 0 else ErrorCode.NONE

    def _is_me(self, voter: int, directory: bytes) -> bool:
        is_directory = directory in (NOBODY.directory, self.me.directory) or not self.voters.directories
        return voter in (-1, self.me.id) and is_directory

    def _vote(self, request: elections.VoteRequest, partition: Any, now: Time) -> Message:
        epoch = partition.replica_epoch
        key = self._key_of(partition.replica_id, partition.replica_directory_id)
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

    def _begin(self, request: elections.BeginQuorumEpochRequest, partition: Any, now: Time) -> ErrorCode:
        code = self._check_voter(partition.leader_epoch, partition.leader_id)
        if code == ErrorCode.NONE:
            self._learn(Standing(partition.leader_id, partition.leader_epoch), now)
            if isinstance(self.state, Prospective) and self.election.leader == partition.leader_id:
                self._follow(partition.leader_id, self.epoch, now)
            if not self._is_me(request.voter_id, partition.voter_directory_id):
                code = ErrorCode.INVALID_VOTER_KEY
        return code

    def _end(self, partition: Any, now: Time) -> ErrorCode:
        code = self._check_voter(partition.leader_epoch, partition.leader_id)
        if code == ErrorCode.NONE:
            self._learn(Standing(partition.leader_id, partition.leader_epoch), now)
            if isinstance(self.state, Follower) and self.state.leader == partition.leader_id:
                self.state.leader_left = True
                preferred = [candidate.candidate_id for candidate in partition.preferred_candidates]
                if self.me.id in preferred:
                    place = preferred.index(self.me.id)
                    wait = place * self.options.election_backoff_max_ms // (2 * len(preferred))
                    self.state.deadline = min(self.state.deadline, now.mono + wait)
        return code

    # Answers of others

    def _use_answer(self, asked: Asked, partition: Any, now: Time) -> None:
        """The answer changed nothing about who leads."""
        state = self.state
        match asked.about[0], state:
            case "vote", Prospective() | Candidate():
                _, voter, epoch, pre_vote = asked.about
                if epoch == self.epoch and pre_vote == isinstance(state, Prospective):
                    granted = partition.error_code == ErrorCode.NONE and partition.vote_granted
                    (state.tally.granted if granted else state.tally.rejected).add(voter)
            case "end", Resigned():
                state.untold.discard(asked.target)
            case "fetch", Follower():
                if (asked.target, asked.about[2]) == (state.leader, self.epoch):
                    self._fetched(state, asked, partition, now)

    def _fetched(self, state: Follower, asked: Asked, partition: fetch.PartitionData, now: Time) -> None:
        if partition.error_code != ErrorCode.NONE:
            self._retry_at[asked.about] = now.mono + self.options.retry_backoff_ms
            return
        state.deadline = now.mono + self.options.fetch_timeout_ms
        state.has_fetched, state.leader_left = True, False
        diverging = partition.diverging_epoch
        if diverging.end_offset >= 0:
            end = self.replica.cut(requests.epoch_end_of(diverging))
            self._outbox.event("quorum.cut", node=self.me.id, offset=end, epoch=self.epoch)
        elif asked.request.topics[0].partitions[0].fetch_offset == self.replica.end:
            try:
                self.replica.append_fetched(requests.content_of(partition), now)
            except ApiError:  # damaged on its way, or on the leader's disk: nothing was appended
                self._retry_at[asked.about] = now.mono + self.options.retry_backoff_ms
                return
            self.replica.raise_high_watermark(min(partition.high_watermark, self.replica.end))
        self._sync()

    def _save_committed(self, now: Time) -> None:
        """Save the high watermark now and then. Nothing waits for it."""
        state = self.replica.to_save
        if self._saving is None and now.mono >= self._save_at and state != self.replica.saved:
            self._saving = (self._outbox.replace(self.replica.committed_path, format_committed(state)), state)
            self._save_at = now.mono + SAVE_EVERY_MS

    def _sync(self) -> None:
        """Sync what was appended. What comes meanwhile is synced next."""
        if self._syncing is None and self.replica.synced_end < self.replica.end:
            end = self.replica.end
            self._syncing = (self._outbox.sync(self.replica.unsynced()), end)
