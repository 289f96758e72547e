"""One replica of the metadata quorum as a state machine: requests, answers, time and finished writes → effects.

It follows Kafka's KRaft. `voting` has who leads, `following` what followers do; here are the inputs, and what a leader
does. `replica` says which part of the log counts. The leader of an epoch has the votes of a majority; what a majority
has synced is committed, once that includes the leader's own first record.
"""

from collections.abc import Sequence
from typing import Any

from tidelog.effects import Effect
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import NO_LEADER, Time
from tidelog.quorum import requests
from tidelog.quorum.control_records import Control, control_batch, leader_change
from tidelog.quorum.following import Following
from tidelog.quorum.outbox import Asked
from tidelog.quorum.requests import Message
from tidelog.quorum.serving import Serving
from tidelog.quorum.snapshot_work import Work
from tidelog.quorum.snapshots import SnapshotId, make
from tidelog.quorum.states import Candidate, Follower, Leader, Progress, Prospective, Resigned, State, Unattached
from tidelog.quorum.tree import TreeImage
from tidelog.quorum.voter_changes import UPDATE, VERSIONS, VoterChanges, VoterRequest
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.quorum.voting import NEVER, RANK_MS, QuorumConfig
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


class Quorum(Following):
    """`effects` returns what the inputs since the last call require."""

    def __init__(self, config: QuorumConfig) -> None:
        super().__init__(config)
        replica = self.replica
        self._serving = Serving(replica, self._outbox, self.options)
        self._changes = VoterChanges(replica, self._outbox, self.options, self._append_voters)

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
        leader, told = self._leader_place
        if node == self.me.id and self._endpoints:
            return self._endpoints
        if told and node == leader == self.election.leader:
            return told
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
            if asked.target == self._leader_place[0]:
                self._leader_place = (NO_LEADER, [])  # the voter set may know better
            self._retry_later(asked.about, now)
            if isinstance(self.state, Prospective | Candidate):
                self.state.tally.doubtful.add(asked.target)
        else:
            self._retry_at.pop(asked.about, None)
            before = self.state
            self._learn(requests.standing_of(partition), now)
            for place in getattr(response, "node_endpoints", ()):
                self._place_leader(place.node_id, [VoterEndpoint(host=place.host, port=place.port)])
            if self.state is before:
                self._use_answer(token, asked, partition, now)
        if isinstance(self.state, Unattached) and not self.stands:
            # Who leads is not known yet: it asks another one soon, or the same one once that may be asked again.
            soon = now.mono + self.options.retry_backoff_ms
            self.state.deadline = min(self.state.deadline, soon)
        self._act(now)

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
        if self._retry_at:  # whatever the input is: on a late loop it may come before `wake`
            self._retry_at = {about: at for about, at in self._retry_at.items() if at > now.mono}
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

    # Leading

    def _act_leader(self, state: Leader, now: Time) -> None:
        if self._is_over(self._leader_until(state), now):
            self._resign(state, now)
            return
        self._advance(state)
        self._changes.act(now)
        self._changes.update_own(self.me, self._endpoints, now, in_office=self.is_in_office)
        if not self.is_voter and self.replica.voters.latest_offset < self.replica.high_watermark:
            self._resign(state, now)  # its removal is committed
            return
        if state.announced_at + self.options.fetch_timeout_ms // 2 <= now.mono:
            state.announced_at = now.mono
            self._announce(state, now)
        self._serving.answer(self.standing, self.voters, self._given_out, now)

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
            self._serving.wait(token, key, partition, request.max_wait_ms, now)

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
