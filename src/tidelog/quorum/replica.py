"""One replica of the metadata log: how far it is synced and committed, and which voter sets it contains.

- Only synced records count: `synced_end` is what a follower fetches from, and what a leader counts of its own log. A
  failed fsync ends the process. The next one writes everything above the recovery point again, because a page whose
  fsync failed looks clean, and the next fsync would not write it.
- Nothing below the high watermark is ever cut, and `committed-state` has what was committed and synced here. A bad
  batch below that is rot: records that this voter acknowledged are lost, so it must not start. Above it a power loss
  tears the log anywhere, so whatever follows the first bad batch is cut.
- The file is written at most every `SAVE_EVERY_MS`, beside the syncs of records, so it lags. What that does not notice:
  rot in records that were synced during the last moments before a power loss, or that no leader confirmed since.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import CorruptLog
from tidelog.log import names
from tidelog.log.log import Log
from tidelog.log.scan import whole_batches
from tidelog.log.segment import Segment
from tidelog.model import Time, TopicPartition
from tidelog.partition.truncation import KIP_320, EpochEnd, diverging, epoch_end
from tidelog.ports import Buffer, Disk, File
from tidelog.quorum.committed_file import FILE_NAME, CommittedState, format_committed, load_committed
from tidelog.quorum.control_records import control_of
from tidelog.quorum.election import LogEnd
from tidelog.quorum.voters import VoterHistory, VoterKey, Voters
from tidelog.wire.messages.cluster.metadata_log import VotersRecord
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


class Replica:
    """The log, its high watermark and its voter sets."""

    def __init__(self, log: Log, disk: Disk, voters: VoterHistory, saved: CommittedState) -> None:
        self.log = log
        self.voters = voters
        self.high_watermark = saved.high_watermark
        self.saved = saved
        """What the file has, durably."""
        self._disk = disk

    def __repr__(self) -> str:
        return f"Replica({self.log}, synced {self.synced_end}, HW {self.high_watermark})"

    @classmethod
    def open(cls, disk: Disk, folder: str, voters: Voters, config: TopicConfig, now: Time) -> "Replica":
        """The replica in the folder, which is created if it is missing. `voters` vote where the log does not say.
        Raises CorruptLog if records that were committed and synced here are damaged."""
        saved = load_committed(disk, folder)
        if disk.exists(folder):
            _check_for_rot(disk, folder, saved.high_watermark)
        log = Log.open(
            disk,
            folder,
            PARTITION,
            TOPIC_ID,
            config,
            recovery_point=saved.high_watermark,
            log_start_offset=0,
            clean=False,
            now=now,
        )
        _write_again(log)
        found = cls(log, disk, VoterHistory(voters), saved)
        for segment in log.segments:
            found.note_voters(segment.file.read(0, segment.size))
        return found

    @property
    def end(self) -> int:
        return self.log.log_end_offset

    @property
    def synced_end(self) -> int:
        """The part that survives a power loss."""
        return self.log.recovery_point

    @property
    def log_end(self) -> LogEnd:
        return LogEnd(max(self.log.epochs.latest, 0), self.end)

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
            for record in records(memoryview(content)[batch.position : batch.end]):
                if isinstance(control := control_of(record), VotersRecord):
                    first = batch.base_offset if base_offset is None else base_offset
                    self.voters.append(first + record.offset - batch.base_offset, _voters_of(control))

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

    def raise_high_watermark(self, offset: int) -> bool:
        """Returns whether it moved. It never goes back."""
        if offset <= self.high_watermark:
            return False
        assert offset <= self.end, (self, offset)
        self.high_watermark = offset
        return True

    def read(self, offset: int, max_bytes: int) -> FileSlice | None:
        return self.log.read(offset, max_bytes, self.end, at_least_one=True)

    def committed(self, offset: int, max_bytes: int = _MAX_BATCH) -> Iterator[Committed]:
        """The committed batches from the one at `offset` on; so many bytes are read at once, or one batch. Raises
        CorruptLog at one that is damaged."""
        while offset < self.high_watermark:
            piece = self.log.read(offset, max_bytes, self.high_watermark, at_least_one=True)
            if piece is None:
                return
            content = piece.file.read(piece.position, piece.length)
            for batch in batches(content):
                if not crc_holds(content, batch):
                    raise CorruptLog(f"{piece.file.path}: the batch at offset {batch.base_offset} is damaged")
                yield Committed(batch, content[batch.position : batch.end])
                offset = batch.next_offset

    def unsynced(self) -> list[File]:
        """The files to sync, in this order; then `synced` with the log's present end."""
        return self.log.unsynced()

    def synced(self, end: int) -> None:
        self.log.mark_synced(end)

    @property
    def to_save(self) -> CommittedState:
        """What the file may say now."""
        return self.saved._replace(high_watermark=min(self.high_watermark, self.synced_end))

    @property
    def committed_path(self) -> str:
        return f"{self.log.folder}/{FILE_NAME}"

    def close(self) -> None:
        """Sync and close everything."""
        self.log.close()
        self.saved = self.to_save
        self._disk.replace(self.committed_path, format_committed(self.saved))


def _voters_of(record: VotersRecord) -> Voters:
    return Voters(VoterKey(voter.voter_id, voter.voter_directory_id) for voter in record.voters)


def _check_for_rot(disk: Disk, folder: str, committed: int) -> None:
    """Raises CorruptLog unless all batches below this offset are whole."""
    found = disk.list(folder)
    bases = sorted(names.offset_of(name) or 0 for name in found if names.is_kind(name, names.LOG))
    expected = bases[0] if bases else 0
    for base, following in pairwise([*bases, 2**63 - 1]):
        if base != expected or expected >= committed:
            break
        file = disk.open(f"{folder}/{names.name(base, names.LOG)}")
        for batch in whole_batches(file, file.size()):
            if batch.base_offset != expected or expected >= following:
                break
            expected = batch.next_offset
        file.close()
    if expected < committed:
        raise CorruptLog(
            f"{folder}: offset {expected} is damaged, although everything below {committed} was committed; "
            "remove this voter from the quorum, format its folder and add it again"
        )


def _write_again(log: Log) -> None:
    """Write everything above the recovery point again, so that the next fsync really writes it."""
    point = log.recovery_point
    for number in range(log.segments.floor(max(point, log.segments.base_offset)), len(log.segments)):
        segment: Segment = log.segments[number]
        at = segment.locate(point) if segment.size else None
        position = at.position if at is not None else segment.size
        content = segment.file.read(position, segment.size - position)
        if content:
            segment.file.write(position, content)
            log.changed_in_place(segment)
    log.durability.dirty = True
