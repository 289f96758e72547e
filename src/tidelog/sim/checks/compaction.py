"""I31 (Q): compaction keeps each key's last record, adds and changes none, and touches nothing at or above the last
stable offset or in an active segment. Records are read from the files and compared with what was committed.

A key's last record is the one with the highest committed offset; if it was part of a transaction, of one that was
committed. Tombstones may be gone, and so may records below a log's start.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from tidelog.log.names import LOG
from tidelog.sim.checks.replica import Replica
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import BatchHeader, batches, read_marker, records

_PREFIX = Struct(">qi")
"""Base offset and length of the rest of a batch."""


class Kept(NamedTuple):
    """One record, its value by checksum."""

    key: bytes | None
    value: int
    is_tombstone: bool


@dataclass(slots=True)
class Keys:
    """What was committed in one compacted partition.

    Below `sealed_to` some replica may have compacted its log. `undecided` are offsets in open transactions, by
    producer.
    """

    committed: dict[int, Kept] = field(default_factory=dict)
    last: dict[bytes, int] = field(default_factory=dict)
    undecided: dict[int, list[int]] = field(default_factory=dict)
    sealed_to: int = 0
    is_whole: bool = True
    """Whether everything that was committed was read before it was compacted."""

    def seal(self, replica: Replica) -> None:
        partition = replica.partition
        untouched = min(partition.log.segments.active.base_offset, partition.last_stable_offset)
        self.sealed_to = max(self.sealed_to, untouched)

    def take(self, content: memoryview, batch: BatchHeader) -> None:
        """Record the next committed batch."""
        if batch.is_control:
            self._decide(batch.producer_id, committed=ends_well(content, batch))
            return
        for offset, kept in kept_in(content, batch):
            self.committed[offset] = kept
            if batch.is_transactional:
                self.undecided.setdefault(batch.producer_id, []).append(offset)
            else:
                self._note(offset)

    def _decide(self, producer: int, *, committed: bool) -> None:
        offsets = self.undecided.pop(producer, [])
        for offset in offsets if committed else ():
            self._note(offset)

    def _note(self, offset: int) -> None:
        key = self.committed[offset].key
        if key is not None:
            self.last[key] = max(offset, self.last.get(key, offset))

    def check(self, replica: Replica, start: int, end: int, found: dict[int, Kept]) -> None:
        """Check `found`, which a replica's files hold, for offsets in [start, end).

        The record that replaces another may be above `end`: followers of a leader commit and compact in its epoch, even
        when the tree has a later epoch that nobody has sent to them yet.
        """
        newer = {kept.key for offset, kept in found.items() if end <= offset < self.sealed_to}
        for offset, kept in found.items():
            known = self.committed.get(offset)
            assert not start <= offset < end or known == kept, (
                f"I31: {replica!r} holds {kept} at {offset}, where {known} was committed"
            )
        for key, offset in self.last.items():
            if start <= offset < end and offset not in found and key not in newer:
                assert self.committed[offset].is_tombstone, f"I31: {replica!r} lacks the last of {key!r} at {offset}"
        for offset in self.committed:
            gone = max(start, self.sealed_to) <= offset < end and offset not in found
            assert not gone, f"I31: {replica!r} lacks {offset}, and nobody may compact beyond {self.sealed_to}"


def check(keys: Keys, replica: Replica, disk: SimDisk, end: int) -> None:
    """Check the files of one replica, up to `end`."""
    found = {
        offset: kept
        for content, batch in contents(replica, disk, replica.partition.log.log_start_offset)
        if not batch.is_control
        for offset, kept in kept_in(content, batch)
    }
    keys.check(replica, replica.partition.log.log_start_offset, end, found)


def contents(replica: Replica, disk: SimDisk, start: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the batches at and above `start` in the files, each with the bytes around it."""
    log = replica.partition.log
    for number, segment in enumerate(list(log.segments)):
        if log.segments.end_of(number, log.log_end_offset) > start:
            content = memoryview(disk.inode(segment.path(LOG)).whole())[: segment.size]
            content = content[first_from(start, content) :]
            for batch in batches(content):
                if batch.base_offset >= start:
                    yield content, batch


def first_from(start: int, content: memoryview) -> int:
    """Return the position of the first batch that begins at or above the offset, skipping others by their lengths."""
    position = 0
    while position + _PREFIX.size <= len(content):
        base_offset, length = _PREFIX.unpack_from(content, position)
        if base_offset >= start or length <= 0:
            break
        position += _PREFIX.size + length
    return position


def kept_in(content: memoryview, batch: BatchHeader) -> Iterator[tuple[int, Kept]]:
    for record in records(content[batch.position : batch.end]):
        yield record.offset, Kept(record.key, crc32(record.value or b""), record.value is None)


def ends_well(content: memoryview, batch: BatchHeader) -> bool:
    """Whether this control batch commits."""
    marker = next((read_marker(record) for record in records(content[batch.position : batch.end])), None)
    return marker is not None and marker.committed
