"""One replica of the metadata quorum as a state machine: requests, answers, time and finished writes → effects.

It follows Kafka's KRaft. `voting` has who leads; here is what followers and leaders do with the log (KIP-595) and its
snapshots (KIP-630). `replica` says which part of the log counts. The leader of an epoch has the votes of a majority;
what a majority has synced is committed, once that includes the leader's own first record.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import Time
from tidelog.quorum import requests
from tidelog.quorum.committed_file import CommittedState, format_committed
from tidelog.quorum.control_records import Control, control_batch, leader_change
from tidelog.quorum.options import Options
from tidelog.quorum.outbox import FETCHES, VOTES, Asked
from tidelog.quorum.replica import SAVE_EVERY_MS, Replica
from tidelog.quorum.requests import Message, Position
from tidelog.quorum.serving import Serving
from tidelog.quorum.snapshot_work import Fetching, Work
from tidelog.quorum.snapshots import SnapshotId, make
from tidelog.quorum.state_file import ElectionState
from tidelog.quorum.states import Candidate, Follower, Leader, Progress, Prospective, Resigned, State, Unattached
from tidelog.quorum.tree import TreeImage
from tidelog.quorum.voter_changes import UPDATE, VERSIONS, VoterChanges, VoterRequest, update_request
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import NEVER, RANK_MS, Dice, Voting
from tidelog.wire.messages.cluster import fetch_snapshot
from tidelog.wire.messages.cluster import quorum_elections as elections
from tidelog.wire.messages.cluster.metadata_log import KRaftVersionRecord, VoterEndpoint, VotersRecord
from tidelog.wire.messages.cluster.quorum_voters import (
    AddRaftVoterRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from tidelog.wire.messages.records import fetch
from tidelog.wire.records import BatchBuilder, Record


class Quorum(Voting):
    """`effects` returns what the inputs since the last call require. `endpoints` are where this replica is reached."""

    def __init__(
        self,
        me: ReplicaKey,
        cluster_id: str,
        replica: Replica,
        state: ElectionState,
        *,
        dice: Dice,
        options: Options | None = None,
        bootstrap: Sequence[int] = (),
        endpoints: Sequence[VoterEndpoint] = (),
    ) -> None:
        super().__init__(me, cluster_id, replica, state, dice=dice, options=options, bootstrap=bootstrap)
        self._endpoints = list(endpoints)
        self._serving = Serving(replica, self._outbox, self.options)
        self._changes = VoterChanges(replica, self._outbox, self.options, self._append_voters)
        self._syncing: tuple[int, int] | None = None
        """The token of the sync in progress, and the log's end when it began."""
        self._saving: tuple[int, CommittedState] | None = None
        """The token of the write of `committed-state` in progress, and what it will say."""
        self._save_at = 0
        """When it may be written again (monotonic ms)."""
        self._making: Work | None = None
        self._fetching: Fetching | None = None
        self._works: list[Work] = []
        """Work on snapshots, also what was given up and has not ended."""
        self._whole: SnapshotId | None = None
        """A fetched snapshot that is durable: the log starts over at its end once that is saved."""

    # What it is

    @property
    def is_in_office(self) -> bool:
        """Whether it leads and its first record is committed: only then its high watermark is not below one that an
        earlier leader gave out."""
        return isinstance(self.state, Leader) and self.replica.high_watermark > self.state.epoch_start

    @property
    def _given_out(self) -> int:
        return self.replica.high_watermark if self.is_in_office else requests.NO_HIGH_WATERMARK

    @property
    def next_deadline(self) -> int:
        """When to call `wake` (monotonic ms)."""
        moments = [self._state_deadline(), *self._retry_at.values(), *self._serving.deadlines]
        if self._changes.deadline is not None:
            moments.append(self._changes.deadline)
        if self._saving is None and self.replica.to_save != self.replica.saved:
            moments.append(self._save_at)
        if any(work.is_ready for work in self._works):
            return 0
        return min(moments)

    def _state_deadline(self) -> int:
        state, timeout = self.state, self.options.fetch_timeout_ms
        if not self._outbox.is_saved and not isinstance(state, Unattached):
            return NEVER
        if isinstance(state, Leader):
            return min(self._leader_until(state), state.announced_at + timeout // 2)
        if isinstance(state, Follower) and not self.is_synced:
            return min(state.deadline, state.asked_at + timeout // 4)
        return state.deadline

    def endpoints_of(self, node: int) -> Sequence[VoterEndpoint]:
        """Where a voter is reached, or a replica that is to be added; empty if nobody said so."""
        record = self.voters.record_of(node)
        return record.endpoints if record is not None and record.endpoints else self._changes.endpoints(node)

    def effects(self) -> list[Effect]:
        return self._outbox.drain()

    # Inputs

    def start(self, now: Time) -> None:
        """Begin. Nothing is sent before the files are written again."""
        self._begin(now)
        self._sync()
        self._act(now)

    def request(self, token: int, request: Message, now: Time) -> None:
        """A request of another node; answered by `Reply`, sometimes later."""
        if isinstance(request, VoterRequest):
            self._change_voters(token, request, now)
            self._act(now)
            return
        if request.cluster_id not in (None, self._cluster_id):
            self._outbox.reply(token, requests.refused(request, ErrorCode.INCONSISTENT_CLUSTER_ID))
            return
        partition = requests.only_partition(request)
        if partition is None:
            self._outbox.reply(token, requests.refused(request, ErrorCode.INVALID_REQUEST))
            return
        match request:
            case elections.VoteRequest():
                self._outbox.reply(token, self._vote_requested(request, partition, now))
            case elections.BeginQuorumEpochRequest():
                code = self._epoch_begun(request, partition, now)
                self._outbox.reply(token, requests.epoch_response(request, self.standing, code))
            case elections.EndQuorumEpochRequest():
                code = self._epoch_ended(partition, now)
                self._outbox.reply(token, requests.epoch_response(request, self.standing, code))
            case fetch.FetchRequest():
                self._fetch(token, request, partition, now)
            case fetch_snapshot.FetchSnapshotRequest():
                self._outbox.reply(token, self._fetch_snapshot(request, partition, now))
        self._act(now)

    def answered(self, token: int, response: Message | None, now: Time) -> None:
        """The answer to a request of this node; None if there is none."""
        asked = self._outbox.answered(token)
        if asked.about[0] in (VERSIONS, UPDATE):
            self._use_answer_about_voters(asked, response, now)
            self._act(now)
            return
        partition = requests.answered_partition(response) if response is not None else None
        if response is not None:
            self._note_cluster(asked.target, response)
        if partition is None:
            self._retry_later(asked.about, now)
            if isinstance(self.state, Prospective | Candidate):
                self.state.tally.doubtful.add(asked.target)
        else:
            self._retry_at.pop(asked.about, None)
            before = self.state
            self._learn(requests.standing_of(partition), now)
            if self.state is before:
                self._use_answer(token, asked, partition, now)
        if isinstance(self.state, Unattached) and not self.stands:
            # Who leads is not known yet: it asks again soon, another voter or the same.
            soon = self._retry_at.get(asked.about, now.mono + self.options.retry_backoff_ms)
            self.state.deadline = min(self.state.deadline, soon)
        self._act(now)

    def synced(self, token: int, now: Time) -> None:
        """A `Sync` or a `Replace` ended well. If one fails, the process must end."""
        if self._syncing is not None and self._syncing[0] == token:
            self.replica.synced(self._syncing[1])
            self._syncing = None
            self._sync()
        elif self._saving is not None and self._saving[0] == token:
            self._committed_saved(self._saving[1])
        elif not any(work.synced(token) for work in self._works) and self._outbox.saved(token):
            self._saved(now)
        self._act(now)

    def wake(self, now: Time) -> None:
        """Time passed."""
        self._retry_at = {about: at for about, at in self._retry_at.items() if at > now.mono}
        self._act(now)

    def gone(self, node: int, now: Time) -> None:
        """A connection to the node broke, and a new one was refused: its process is dead, or was."""
        if isinstance(self.state, Follower) and self.state.leader == node:
            self._leader_left(self.state)
            if self.stands:
                soon = now.mono + self.voters.rank(self.me.id, behind=node) * RANK_MS
                self.state.deadline = min(self.state.deadline, soon)
            else:
                self.state.deadline = now.mono  # it asks the voters who leads next
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

    def make_snapshot(self, end_offset: int, picture: TreeImage, last_timestamp: int, now: Time) -> bool:
        """Begin to write a snapshot of the tree as the records before `end_offset` made it; the last of them has this
        timestamp. Returns False if one is being made, or is not older. It counts once it is durable: then
        `replica.snapshots.newest` is this one, and what is beyond the retention is removed."""
        if self._making is not None or end_offset <= self.replica.snapshots.newest.end_offset:
            return False
        which, state = self.replica.snapshot_at(end_offset)
        steps = make(self.replica.disk, self.replica.log.folder, which, picture, state, last_timestamp)
        self._making = Work(steps, lambda: self._made(which, now), lambda: None)
        self._works.append(self._making)
        self._act(now)
        return True

    def _made(self, which: SnapshotId, now: Time) -> None:
        self._making = None
        if not self.replica.hold(which):
            return
        options = self.options
        self.replica.retain(now, retention_bytes=options.retention_bytes, retention_ms=options.retention_ms)
        self._outbox.event("quorum.snapshot", node=self.me.id, offset=which.end_offset, epoch=which.epoch)

    # Transitions

    def _entered(self, before: State, now: Time) -> None:
        if isinstance(before, Leader):
            self._serving.end(self.standing)
            self._changes.stop()
        if self._fetching is not None:
            self._stop_fetching()
        if isinstance(self.state, Leader):
            self._begin_office(now)

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
        self._work_on()
        self._save_committed(now)

    def _work_on(self) -> None:
        """One step of each work on snapshots."""
        for work in self._works:
            if work.is_ready:
                work.step(self._outbox)
        self._works = [work for work in self._works if not work.is_over]

    def _act_unattached(self, state: Unattached, now: Time) -> None:
        if now.mono < state.deadline:
            return
        if self.stands:
            self._become(self._prospective(now), now)
            return
        state.deadline = now.mono + self.options.fetch_timeout_ms
        known = [node for node in dict.fromkeys((*self.voters.ids, *self._bootstrap)) if node != self.me.id]
        known = [node for node in known if ("fetch", node, self.epoch) not in self._retry_at] or known
        if known:
            self._ask_for_records(known[self._dice(0, len(known) - 1)])
            state.deadline = now.mono + self._dice(1, self.options.fetch_timeout_ms // 2)

    # Following

    def _act_follower(self, state: Follower, now: Time) -> None:
        if self._is_over(state.deadline, now):
            if self.stands:
                self._become(self._prospective(now, leader_left=state.leader_left), now)
            else:
                self._change()
                self._become(Unattached(now.mono), now)
        elif self._whole is not None:
            return
        elif self._fetching is not None:
            self._ask_for_slice(state.leader, self._fetching)
        elif self.is_synced or now.mono >= state.asked_at + self.options.fetch_timeout_ms // 4:
            state.asked_at = now.mono
            self._ask_for_records(state.leader)
            self._update_endpoints(state)

    def _ask_for_records(self, target: int) -> None:
        """Fetch from the end of what is synced: for the leader, everything before is synced here. While a sync lasts,
        a fetch only shows both that the other one is there."""
        about, is_synced, options = ("fetch", target, self.epoch), self.is_synced, self.options
        if about in self._retry_at:
            return
        end = self.replica.log_end if is_synced else self.replica.log_end_at(self.replica.synced_end)
        position = Position(end, self.replica.high_watermark)
        most = options.fetch_bytes if is_synced else 1
        request = requests.fetch_request(
            self._cluster_id, self.me, self.epoch, position, wait_ms=options.fetch_wait_ms, most=most
        )
        self._outbox.ask(target, request, FETCHES, about)

    def _update_endpoints(self, state: Follower) -> None:
        """Send this voter's endpoints to the leader, if the set of voters has others."""
        about = (UPDATE, state.leader, self.epoch)
        record = self.voters.record_of(self.me.id) if self.is_voter and self.voters.directories else None
        is_other = bool(self._endpoints) and record is not None and record.endpoints != self._endpoints
        if is_other and state.has_fetched and about not in self._retry_at:
            request = update_request(self._cluster_id, self.me, self.epoch, self._endpoints)
            self._outbox.ask(state.leader, request, VOTES, about)

    def _ask_for_slice(self, leader: int, fetching: Fetching) -> None:
        about = ("snapshot", leader, self.epoch)
        if about not in self._retry_at and fetching.work is None:
            request = requests.snapshot_request(
                self._cluster_id, self.me, self.epoch, fetching.id, fetching.position, self.options.snapshot_bytes
            )
            self._outbox.ask(leader, request, FETCHES, about)

    def _use_answer(self, token: int, asked: Asked, partition: Any, now: Time) -> None:
        """The answer changed nothing about who leads."""
        state = self.state
        match asked.about[0], state:
            case "vote", Prospective() | Candidate():
                _, voter, epoch, pre_vote = asked.about
                if epoch == self.epoch and pre_vote == isinstance(state, Prospective):
                    granted = partition.error_code == ErrorCode.NONE and partition.vote_granted
                    (state.tally.granted if granted else state.tally.rejected).add(voter)
            case "end", Resigned():
                state.unacknowledged.discard(asked.target)
            case "fetch", Unattached():
                self._retry_later(asked.about, now)
            case "fetch" | "snapshot", Follower():
                if (asked.target, asked.about[2]) == (state.leader, self.epoch):
                    self._used(token, state, asked, partition, now)

    def _used(self, token: int, state: Follower, asked: Asked, partition: Any, now: Time) -> None:
        """The leader answered."""
        if partition.error_code != ErrorCode.NONE:
            self._retry_later(asked.about, now)
            if asked.about[0] == "snapshot":
                self._stop_fetching()  # it may have a newer one
            return
        if not state.leader_left or token > state.left_after:
            state.deadline = now.mono + self.options.fetch_timeout_ms
            state.has_fetched, state.leader_left = True, False
            self._lost_elections = 0
        if asked.about[0] == "snapshot":
            self._slice_fetched(asked, partition, now)
        else:
            self._fetched(asked, partition, now)

    def _fetched(self, asked: Asked, partition: fetch.PartitionData, now: Time) -> None:
        diverging, snapshot = partition.diverging_epoch, requests.snapshot_of(partition)
        offset, before = asked.request.topics[0].partitions[0].fetch_offset, self.replica.end
        if diverging.end_offset >= 0:
            end = self.replica.cut(requests.epoch_end_of(diverging))
            self._retry_unless(end != before, asked, now)
            self._outbox.event("quorum.cut", node=self.me.id, offset=end, epoch=self.epoch)
        elif snapshot.end_offset >= 0:
            is_clear = offset == self.replica.end and all(work is self._making for work in self._works)
            if is_clear and self._fetching is None and self.replica.is_behind(snapshot):
                self._fetching = Fetching(self.replica.disk, self.replica.log.folder, snapshot)
            self._retry_unless(self._fetching is not None, asked, now)
        elif offset <= self.replica.end:
            if offset == self.replica.end and self.is_synced:
                try:
                    self.replica.append_fetched(requests.content_of(partition.records), now)
                except ApiError:  # damaged on its way, or on the leader's disk: nothing was appended
                    self._retry_unless(has_progress=False, asked=asked, now=now)
                    return
                offset = self.replica.end
            self._failures.pop(asked.about, None)
            self.replica.raise_high_watermark(min(partition.high_watermark, offset))
        self._sync()

    def _slice_fetched(self, asked: Asked, partition: fetch_snapshot.FetchSnapshotPartitionResponse, now: Time) -> None:
        fetching = self._fetching
        if fetching is None or fetching.work is not None:
            return
        if requests.snapshot_of(partition) != fetching.id:
            self._stop_fetching()
            return
        content, before = requests.content_of(partition.unaligned_records), fetching.position
        if fetching.take(partition.position, content, partition.size):
            steps = fetching.complete(partition.size)
            fetching.work = Work(steps, lambda: self._has_fetched(fetching), lambda: self._gave_up(fetching))
            self._works.append(fetching.work)
        self._retry_unless(fetching.position > before, asked, now)

    def _has_fetched(self, fetching: Fetching) -> None:
        """The snapshot is whole and durable. No leader gets here: none lacks what a snapshot has."""
        self._fetching = None
        if self.replica.is_behind(fetching.id):
            self._whole = fetching.id

    def _gave_up(self, fetching: Fetching) -> None:
        fetching.discard()
        if self._fetching is fetching:  # it was damaged on its way
            self._fetching = None

    def _stop_fetching(self) -> None:
        """Give up a snapshot that is not whole."""
        fetching, self._fetching = self._fetching, None
        if fetching is not None and fetching.work is not None:
            fetching.work.drop()
        elif fetching is not None:
            fetching.discard()

    # Leading

    def _act_leader(self, state: Leader, now: Time) -> None:
        if self._is_over(self._leader_until(state), now):
            self._resign(state, now)
            return
        self._advance(state)
        self._changes.act(now)
        if not self.is_voter and self.replica.voters.latest_offset < self.replica.high_watermark:
            self._resign(state, now)  # its removal is committed
            return
        if state.announced_at + self.options.fetch_timeout_ms // 2 <= now.mono:
            state.announced_at = now.mono
            self._announce(state, now)
        self._serving.answer(self.standing, self._given_out, now)

    def _begin_office(self, now: Time) -> None:
        """The leader's own first record: what earlier leaders wrote is committed with it."""
        self._lost_elections, voters = 0, self.voters
        self._append_control([leader_change(self.me.id, voters)], now, int(voters.directories))
        if voters.directories and self.replica.voters.latest_offset < 0:
            everyone = VotersRecord(voters=list(voters.records))
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
        ends = state.ends_of(self.voters)
        if self.is_voter:
            ends[self.me.id] = self.replica.synced_end
        committed = self.voters.reached_by_majority(ends, 0)
        if committed > state.epoch_start and self.replica.raise_high_watermark(committed):
            self._outbox.event("quorum.committed", node=self.me.id, offset=committed, epoch=self.epoch)

    def _fetch(self, token: int, request: fetch.FetchRequest, partition: fetch.FetchPartition, now: Time) -> None:
        epoch = partition.current_leader_epoch
        code = ErrorCode.INVALID_REQUEST
        if partition.fetch_offset >= 0 and 0 <= partition.last_fetched_epoch <= epoch:
            code = self._check_leader(epoch)
        if code != ErrorCode.NONE or not isinstance(self.state, Leader):
            self._serving.refuse(token, self.standing, code)
            return
        key = self.key_of(request.replica_state.replica_id, partition.replica_directory_id)
        has_place = self._serving.find_place(token, partition, self.standing, self._given_out)
        if key.id >= 0:
            progress = self._heard(self.state, key, now)
            progress.directory = partition.replica_directory_id
            if has_place:
                progress.fetched(partition.fetch_offset, self.replica.end, now.mono)
        if has_place:
            self._serving.wait(token, partition, request.max_wait_ms, now)

    def _heard(self, state: Leader, key: ReplicaKey, now: Time) -> Progress:
        """A replica takes this one for its leader."""
        progress = state.replicas.setdefault(key, Progress())
        progress.fetched_at = now.mono
        state.forget_observers(self.voters)
        return progress

    def _fetch_snapshot(
        self, request: fetch_snapshot.FetchSnapshotRequest, partition: fetch_snapshot.FetchSnapshotPartition, now: Time
    ) -> Message:
        code = self._check_leader(partition.current_leader_epoch)
        if code != ErrorCode.NONE or not isinstance(self.state, Leader):
            return requests.snapshot_response(self.standing, requests.snapshot_of(partition), code)
        if request.replica_id >= 0:
            self._heard(self.state, self.key_of(request.replica_id, partition.replica_directory_id), now)
        return self._serving.snapshot_slice(request, partition, self.standing)

    # Changes of the voters

    def upgrade(self, now: Time, *, validate_only: bool = False) -> None:
        """From static voters to dynamic ones: kraft.version 1, effective once appended (KIP-853). ApiError if this
        node does not lead, or a voter is not ready; nothing is done where that version is reached."""
        if not isinstance(self.state, Leader):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._changes.upgrade(self.state, self.me, now, in_office=self.is_in_office, validate_only=validate_only)
        self._act(now)

    def _change_voters(self, token: int, request: VoterRequest, now: Time) -> None:
        code = ErrorCode.NONE if isinstance(self.state, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(request, UpdateRaftVoterRequest):
            code = self._check_leader(request.current_leader_epoch)
        if request.cluster_id not in (None, self._cluster_id):
            code = ErrorCode.INCONSISTENT_CLUSTER_ID
        if code != ErrorCode.NONE:
            self._changes.refuse(token, request, code, self.standing)
            return
        match request:
            case AddRaftVoterRequest():
                self._changes.add(token, request, now, in_office=self.is_in_office)
            case RemoveRaftVoterRequest():
                self._changes.remove(token, request, now, in_office=self.is_in_office)
            case UpdateRaftVoterRequest():
                code = self._changes.update(request, now, in_office=self.is_in_office)
                self._changes.answer_update(token, code, self.standing)

    def _use_answer_about_voters(self, asked: Asked, response: Message | None, now: Time) -> None:
        if asked.about[0] == UPDATE:
            # Whatever the answer is: the set in the log says whether it must be sent again.
            self._retry_at[asked.about] = now.mono + self.options.fetch_timeout_ms
            return
        state = self.state if isinstance(self.state, Leader) else None
        self._changes.versions(asked.about, response, state, now)

    def _append_voters(self, voters: VoterSet, now: Time) -> int:
        """Append a set, which counts at once; returns its offset. The first one brings the version that knows sets."""
        offset, everyone = self.replica.end, VotersRecord(voters=list(voters.records))
        is_first = self.replica.kraft_versions.latest == 0
        self._append_control([*([KRaftVersionRecord(k_raft_version=1)] if is_first else []), everyone], now)
        self._sync()
        return offset + is_first

    # Files

    def _save_committed(self, now: Time) -> None:
        """Save the high watermark now and then. Nothing waits for it, but a log that starts over, before and after."""
        if self._saving is not None:
            return
        state, saved = self.replica.to_save, self.replica.saved
        if self._whole is not None:
            if self._syncing is not None:
                return  # its files are in use
            state = self.replica.state_before(self._whole)
        elif state == saved or (now.mono < self._save_at and not saved.starts_over):
            return
        self._saving = (self._outbox.replace(self.replica.committed_path, format_committed(state)), state)
        self._save_at = now.mono + SAVE_EVERY_MS

    def _committed_saved(self, state: CommittedState) -> None:
        self.replica.saved, self._saving = state, None
        whole = self._whole
        if whole is not None and state.log_begins == whole.end_offset:
            self._whole = None
            self.replica.start_over(whole)
            self._outbox.event("quorum.snapshot", node=self.me.id, offset=whole.end_offset, epoch=whole.epoch)
            self._sync()

    def _sync(self) -> None:
        """Sync what was appended. What comes meanwhile is synced next."""
        if self._syncing is None and self.replica.must_sync:
            end = self.replica.end
            self._syncing = (self._outbox.sync(self.replica.unsynced()), end)
