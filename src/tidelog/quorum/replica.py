"""One replica of the metadata log: how far it is synced and committed, its snapshots, and which voter sets it contains.

- Only synced records count: `synced_end` is what a follower fetches from, and what a leader counts of its own log. A
  failed fsync ends the process. Recovery then writes everything above the recovery point again, because a page whose
  fsync failed looks clean, and the next fsync would not write it.
- Nothing below the high watermark is ever cut, and `committed-state` has what was committed and synced here. A bad
  batch below that is rot: records that this voter acknowledged are lost, so it must not start. Above it a power loss
  tears the log anywhere, so whatever follows the first bad batch is cut.
- A snapshot stands for the log before its end. Where the log ends before its newest snapshot, or has another epoch
  there, it starts over at the snapshot's end: all that the snapshot has is committed. That it does so is saved first,
  and again once what it had is gone, durably; until then none of its records counts as synced.
- The log begins where the oldest snapshot ends, whose name says of which epoch the record before is. Without that
  nobody could say whether a log that ends there diverges.
- The file is written at most every `SAVE_EVERY_MS`, beside the syncs of records, so it lags. What that does not notice:
  rot in records that were synced during the last moments before a power loss, or that no leader confirmed since.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import CorruptLog
from tidelog.log import names
from tidelog.log.log import Log
from tidelog.log.scan import SCAN_BYTES, walk
from tidelog.model import NO_EPOCH, Time, TopicPartition
from tidelog.partition.truncation import KIP_320, EpochEnd, diverging, epoch_end
from tidelog.ports import Buffer, Disk, File
from tidelog.quorum.committed_file import FILE_NAME, CommittedState, format_committed, load_committed
from tidelog.quorum.control_records import control_of
from tidelog.quorum.election import LogEnd
from tidelog.quorum.held_snapshots import HeldSnapshots
from tidelog.quorum.opening import check_for_rot, clear_leftovers
from tidelog.quorum.snapshots import QuorumState, SnapshotId, heading, remove_unfinished
from tidelog.quorum.voters import History, VoterSet, VoterSetHistory
from tidelog.wire.messages.cluster.metadata_log import KRaftVersionRecord, VotersRecord
from tidelog.wire.records import BatchHeader, batches, crc_holds, records

PARTITION = TopicPartition(names.METADATA_TOPIC, 0)
TOPIC_ID = bytes(15) + b"\x01"
_MAX_BATCH = 8 * 1024 * 1024
SAVE_EVERY_MS = 500
"""How long after the last time the high watermark is saved again."""


class Committed(NamedTuple):
    """A committed batch. `content` is the whole batch."""

    header: BatchHeader
    content: bytes


def config_of(segment_bytes: int = 1_073_741_824) -> TopicConfig:
    """The log's options. Nothing else deletes or compacts it: snapshots do."""
    overrides = {
        "internal.segment.bytes": str(segment_bytes),
        "max.message.bytes": str(_MAX_BATCH),
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "segment.ms": str(2**63 - 1),
    }
    return TopicConfig(overrides, BrokerConfig({}))


def _check(piece: FileSlice, content: bytes, batch: BatchHeader) -> None:
    if not crc_holds(content, batch):
        raise CorruptLog(f"{piece.file.path}: the batch at offset {batch.base_offset} is damaged")


class Replica:
    """The log, its high watermark and its voter sets."""

    def __init__(
        self,
        log: Log,
        disk: Disk,
        snapshots: HeldSnapshots,
        voters: VoterSet,
        saved: CommittedState,
        high_watermark: int,
    ) -> None:
        self.log = log
        self.snapshots = snapshots
        self.high_watermark = high_watermark
        self.saved = saved
        """What the file has, durably."""
        self.disk = disk
        self._static = voters
        self._begin_history()

    def __repr__(self) -> str:
        return f"Replica({self.log}, synced {self.synced_end}, HW {self.high_watermark})"

    @classmethod
    def open(cls, disk: Disk, folder: str, voters: VoterSet, config: TopicConfig, now: Time) -> "Replica":
        """The replica in the folder, which is created if it is missing. `voters` vote where neither the log nor a
        snapshot says. Raises CorruptLog if records that were committed and synced here are damaged."""
        saved = load_committed(disk, folder)
        if disk.exists(folder):
            remove_unfinished(disk, folder)
            clear_leftovers(disk, folder, saved)
        snapshots = HeldSnapshots(disk, folder)
        if disk.exists(folder):
            check_for_rot(disk, folder, saved, snapshots.newest.end_offset)
        log = Log.open(
            disk,
            folder,
            PARTITION,
            TOPIC_ID,
            config,
            recovery_point=max(saved.high_watermark, saved.log_begins),
            log_start_offset=saved.log_begins,
            clean=False,
            now=now,
        )
        high_watermark = min(max(saved.high_watermark, snapshots.newest.end_offset), log.log_end_offset)
        found = cls(log, disk, snapshots, voters, saved, high_watermark)
        if found.is_behind(snapshots.newest):
            found.saved = found.state_before(snapshots.newest)
            disk.replace(found.committed_path, format_committed(found.saved))
            found.start_over(snapshots.newest)
        if found.saved.starts_over:
            found._end_starting_over()
        found._forget_overtaken()
        found._begin_after_oldest()
        for segment in log.segments:
            for batch in walk(segment.file, 0, segment.size, step=SCAN_BYTES):
                if batch.is_control:
                    found.note_voters(segment.file.read(batch.position, batch.length))
        return found

    def _end_starting_over(self) -> None:
        """Make it durable now: the process only begins."""
        for file in self.unsynced():
            file.sync()
        self.synced(self.end)
        self.saved = self.to_save
        self.disk.replace(self.committed_path, format_committed(self.saved))

    def _begin_history(self) -> None:
        """Who votes according to the newest snapshot, which the log before it cannot change any more."""
        newest = self.snapshots.newest
        state = heading(self.disk, self.log.folder, newest).state if newest in self.snapshots else QuorumState(0, None)
        first = self._static if state.voters is None else VoterSet.of(state.voters)
        self.voters = VoterSetHistory(first)
        self.kraft_versions = History(max(state.kraft_version, int(first.directories)))
        if newest.end_offset:
            self.voters.append(newest.end_offset - 1, first)

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @property
    def synced_end(self) -> int:
        """The part that survives a power loss, with its snapshots. A log that starts over begins without records after
        one."""
        synced = max(self.log.recovery_point, 0 if self.saved.starts_over else self.log.log_start_offset)
        return min(synced, self.saved.log_begins) if self.saved.starts_over else synced

    @property
    def must_sync(self) -> bool:
        return self.log.recovery_point < self.end

    @property
    def log_end(self) -> LogEnd:
        return self.log_end_at(self.end)

    def log_end_at(self, offset: int) -> LogEnd:
        """What the log's end would be if it ended at `offset`. A log that has no records since its snapshot has its
        epoch: otherwise it would look less complete than those that still have the snapshot's records."""
        epoch = self.log.epochs.epoch_at(offset - 1) if offset else NO_EPOCH
        newest = self.snapshots.newest
        return LogEnd(max(epoch, newest.epoch if newest.end_offset <= offset else 0, 0), offset)

    def append(self, batch: bytes, epoch: int, now: Time) -> int:
        """Append the leader's batch; returns its first offset."""
        first = self.log.append_as_leader(batch, epoch, now, from_client=False).first_offset
        self.note_voters(batch, first)
        return first

    def append_fetched(self, content: Buffer, now: Time) -> None:
        """Append whole batches of the leader. Raises ApiError CORRUPT_MESSAGE if they are damaged."""
        if self.log.append_as_follower(content, now) is not None:
            self.note_voters(content)

    def note_voters(self, content: Buffer, base_offset: int | None = None) -> None:
        """Voter sets are effective as soon as they are in the log."""
        for batch in batches(content):
            if not batch.is_control:
                continue
            first = batch.base_offset if base_offset is None else base_offset
            for record in records(memoryview(content)[batch.position : batch.end]):
                offset = first + record.offset - batch.base_offset
                control = control_of(record) if offset >= self.snapshots.newest.end_offset else None
                if isinstance(control, VotersRecord):
                    self.voters.append(offset, VoterSet.of(control.voters))
                elif isinstance(control, KRaftVersionRecord):
                    self.kraft_versions.append(offset, control.k_raft_version)

    def diverging(self, last_epoch: int, offset: int) -> EpochEnd | None:
        """Where the log of a replica that fetches from here diverges from this one; None if it does not."""
        return diverging(self.log, last_epoch, offset)

    def cut(self, leader: EpochEnd) -> int:
        """Cut this log where it diverges from the leader's; returns its end."""
        point = KIP_320.truncation(
            leader,
            epoch_end(self.log, leader.epoch),
            end=self.end,
            start=self.log.log_start_offset,
            high_watermark=self.high_watermark,
        )
        self.cut_to(point.offset)
        return self.end

    def cut_to(self, offset: int) -> None:
        assert offset >= self.high_watermark, f"{self} would be cut at {offset}"
        self.log.truncate_to(offset)
        self.voters.cut(self.end)
        self.kraft_versions.cut(self.end)

    def raise_high_watermark(self, offset: int) -> bool:
        """Returns whether it moved. It never goes back."""
        if offset <= self.high_watermark:
            return False
        assert offset <= self.end, (self, offset)
        self.high_watermark = offset
        return True

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        """Whole batches for another replica. CorruptLog if one is damaged here: nobody could use it, and the replicas
        that lack it need another leader."""
        piece = self.log.read(offset, max_bytes, self.end, at_least_one=True)
        if piece is not None:
            content = piece.file.read(piece.position, piece.length)
            for batch in batches(content):
                _check(piece, content, batch)
        return piece

    def committed(self, offset: int, max_bytes: int = _MAX_BATCH) -> Iterator[Committed]:
        """The committed batches from the one at `offset` on; so many bytes are read at once, or one batch. Raises
        CorruptLog at one that is damaged."""
        while offset < self.high_watermark:
            piece = self.log.read(offset, max_bytes, self.high_watermark, at_least_one=True)
            if piece is None:
                return
            content = piece.file.read(piece.position, piece.length)
            for batch in batches(content):
                _check(piece, content, batch)
                yield Committed(batch, content[batch.position : batch.end])
                offset = batch.next_offset

    # Snapshots

    def is_behind(self, snapshot: SnapshotId) -> bool:
        """Whether this log lacks what the snapshot stands for, or has something else in its place."""
        end = snapshot.end_offset
        if self.log.log_start_offset >= end:
            return False
        return self.end < end or self.log.epochs.epoch_at(end - 1) != snapshot.epoch

    def state_before(self, snapshot: SnapshotId) -> CommittedState:
        """What is saved before the log starts over after this snapshot."""
        end = snapshot.end_offset
        return CommittedState(min(self.saved.high_watermark, end - 1), log_begins=end)

    def start_over(self, snapshot: SnapshotId) -> None:
        """Begin again, without records, after a durable snapshot; `state_before(snapshot)` was saved, durably, and no
        sync is in progress. The next sync makes it durable; then `to_save` says that it is done."""
        self.log.truncate_fully_and_start_at(snapshot.end_offset)
        self.log.durability.recovery_point = 0
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self.hold(snapshot)
        self._begin_history()

    def hold(self, snapshot: SnapshotId) -> bool:
        """A snapshot is durable. Returns whether it is held: the log may have started over after a newer one while it
        was made."""
        self.snapshots.add(snapshot)
        self._forget_overtaken()
        return snapshot in self.snapshots

    def _forget_overtaken(self) -> None:
        self.snapshots.remove_before(SnapshotId(self.log.log_start_offset, 0))

    def snapshot_for(self, last_epoch: int, offset: int) -> SnapshotId | None:
        """The snapshot that a replica whose log ends there must fetch first: this log does not have what follows, or
        cannot say whether the logs diverge."""
        newest, oldest, start = self.snapshots.newest, self.snapshots.oldest, self.log.log_start_offset
        if newest.end_offset == 0:
            return None
        # At its start the log does not know the epoch of the record before, but from a snapshot that ends there.
        is_other = offset == start and (start, last_epoch) != (oldest.end_offset, oldest.epoch)
        is_before = offset < start or last_epoch < oldest.epoch
        return newest if offset == 0 or is_before or is_other else None

    def snapshot_at(self, end_offset: int) -> tuple[SnapshotId, QuorumState]:
        """How a snapshot of what is committed before this offset is named, and what it says of the quorum."""
        assert self.log.log_start_offset < end_offset <= self.high_watermark, (end_offset, self)
        version = self.kraft_versions.at(end_offset)
        voters = self.voters.at(end_offset).records if version > 0 else None
        return SnapshotId(end_offset, self.log.epochs.epoch_at(end_offset - 1)), QuorumState(version, voters)

    def retain(self, now: Time, *, retention_bytes: int, retention_ms: int) -> None:
        """Remove snapshots beyond the retention, and the log before the oldest one that is left. Only durable
        snapshots are held, so what they stand for is not lost with it."""
        self.snapshots.retain(self.log.size, now.wall, retention_bytes=retention_bytes, retention_ms=retention_ms)
        self.log.roll(now)  # only whole segments are deleted, and the active one never is
        if self._begin_after_oldest():
            for path in self.log.delete_old_segments(now, self.high_watermark):
                self.disk.remove(path)

    def _begin_after_oldest(self) -> bool:
        """Returns whether the log's start moved. A log that was opened begins where its first file does."""
        return self.log.advance_start(min(self.snapshots.oldest.end_offset, self.high_watermark))

    # Durability

    def unsynced(self) -> list[File]:
        """The files to sync, in this order; then `synced` with the log's present end."""
        return self.log.unsynced()

    def synced(self, end: int) -> None:
        self.log.mark_synced(end)

    @property
    def to_save(self) -> CommittedState:
        """What the file may say now."""
        proved = max(self.saved.high_watermark, min(self.high_watermark, self.synced_end))
        return self.saved._replace(high_watermark=proved)

    @property
    def committed_path(self) -> str:
        return f"{self.log.folder}/{FILE_NAME}"

    def close(self) -> None:
        """Sync and close everything."""
        self.log.close()
        self.saved = self.to_save
        self.disk.replace(self.committed_path, format_committed(self.saved))
