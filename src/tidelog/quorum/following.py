"""What followers and observers do with the log: fetch records (KIP-595), or a snapshot in their place (KIP-630).

Everything is pulled: each request asks from the end of what is synced here, which is how the leader learns what a
majority has. Its files are written beside that: syncs of what was appended, one at a time, and now and then the high
watermark.
"""

from typing import Any

from tidelog.errors import ApiError, ErrorCode
from tidelog.model import Time
from tidelog.quorum import requests
from tidelog.quorum.committed_file import CommittedState, format_committed
from tidelog.quorum.outbox import FETCHES, VOTES, Asked
from tidelog.quorum.replica import SAVE_EVERY_MS
from tidelog.quorum.requests import Position
from tidelog.quorum.snapshot_work import Fetching, Work
from tidelog.quorum.snapshots import SnapshotId
from tidelog.quorum.states import Follower, Unattached
from tidelog.quorum.voter_changes import UPDATE, update_request
from tidelog.quorum.voting import QuorumConfig, Voting
from tidelog.wire.messages.cluster import fetch_snapshot
from tidelog.wire.messages.records import fetch


class Following(Voting):
    """Adds what followers and observers do, and the writing of the replica's files."""

    def __init__(self, config: QuorumConfig) -> None:
        super().__init__(config)
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

    def _act_unattached(self, state: Unattached, now: Time) -> None:
        if now.mono < state.deadline:
            return
        if self.stands:
            self._become(self._prospective(now), now)
            return
        state.deadline = now.mono + self.options.fetch_timeout_ms
        known = [node for node in dict.fromkeys((*self.voters.ids, *self._bootstrap)) if node != self.me.id]
        retried_at = [self._retry_at.get(("fetch", node, self.epoch), now.mono) for node in known]
        due = [node for node, at in zip(known, retried_at, strict=True) if at <= now.mono]
        if due:
            self._ask_for_records(due[self._dice(0, len(due) - 1)])
            state.deadline = now.mono + self._dice(1, self.options.fetch_timeout_ms // 2)
        elif known:
            state.deadline = min(retried_at)

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
