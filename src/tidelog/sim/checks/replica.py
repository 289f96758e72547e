"""One replica as the checks see it: the numbers of its partition, and its log as a chain of batches.

Invariant of the chain: `chain` is a sum over all batches below, so two numbers suffice to compare what two logs hold
between two offsets, even if the beginning of one cannot be read any more.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.log.names import LOG
from tidelog.log.segment import Segment
from tidelog.partition.leader import Proposal
from tidelog.partition.partition import Partition
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import NO_SEQUENCE, BatchHeader, batches

NO_POSITION = (-1, 0)
MASK = 2**64 - 1
NOBODY = (-1, -1, NO_SEQUENCE, NO_SEQUENCE)
NOBODY_COUNTS: frozenset[int] = frozenset()


class Batch(NamedTuple):
    """One record batch: offsets [base, end), its epoch, and the CRC of its content.

    `chain` covers all batches below `end`; `producer` is (id, epoch, first sequence, last sequence).
    """

    base: int
    end: int
    epoch: int
    crc: int
    chain: int
    producer: tuple[int, int, int, int] = NOBODY

    def __repr__(self) -> str:
        return f"<batch {self.base}..{self.end - 1} of epoch {self.epoch}, {self.crc:08x}>"

    @property
    def identity(self) -> tuple[int, int, int, int]:
        """What identifies the batch in any log."""
        return self[:4]


def link(chain: int, *identity: int) -> int:
    """Extend the sum by one batch. The hash of integers is the same in every process."""
    return (chain + hash(identity)) & MASK


class State(NamedTuple):
    """The numbers of a partition that matter to the checks. If two states are equal, the checks are not repeated."""

    epoch: int
    partition_epoch: int
    leading: bool
    high_watermark: int
    end: int
    start: int
    recovery_point: int
    isr: tuple[int, ...] = ()
    maximal_isr: frozenset[int] = frozenset()
    proposal: Proposal | None = None
    elr: tuple[int, ...] = ()

    @property
    def counted(self) -> set[int]:
        """The maximal ISR by definition: committed and proposed members."""
        return {*self.isr, *(self.proposal.isr if self.proposal else ())}


@dataclass(slots=True)
class Chain:
    """Batches in ascending order, without gaps that the log itself does not have.

    Offsets below `deleted_to` are not part of the log any more, even if their bytes are still there: they may come from
    a leader whose records were lost, and as in Kafka nobody truncates deleted records.
    """

    bases: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    first_offset: int = 0
    """The first offset that could be read."""
    deleted_to: int = 0

    def append(self, base: int, end: int, epoch: int, crc: int, producer: tuple[int, int, int, int] = NOBODY) -> Batch:
        previous = self.batches[-1].chain if self.batches else 0
        return self.add(Batch(base, end, epoch, crc, link(previous, base, end, epoch, crc), producer))

    def add(self, batch: Batch) -> Batch:
        if not self.batches:
            self.first_offset = batch.end if batch.epoch < 0 and not batch.crc else 0
        self.bases.append(batch.base)
        self.batches.append(batch)
        self.end = batch.end
        return batch

    def skip_to(self, base: int) -> None:
        """Forget everything below `base`: it cannot be read any more, or proves nothing."""
        self.cut(0)
        if base > 0:
            self.add(Batch(0, base, -1, 0, 0))

    def agrees(self, other: "Chain", offset: int) -> bool:
        """Whether both chains hold the same below `offset`, as far as they can be read."""
        start = max(self.first_offset, other.first_offset, self.deleted_to, other.deleted_to)
        return offset <= start or self.between(start, offset) == other.between(start, offset)

    def between(self, start: int, offset: int) -> int:
        """Return a number that identifies the batches that begin in [start, offset)."""
        lower, upper = bisect_left(self.bases, start), bisect_left(self.bases, offset)
        chain = self.batches[upper - 1].chain if upper else 0
        return (chain - self.batches[lower - 1].chain) & MASK if lower else chain

    def at(self, base: int) -> Batch | None:
        index = bisect_left(self.bases, base)
        return self.batches[index] if index < len(self.bases) and self.bases[index] == base else None

    def below(self, offset: int) -> Batch | None:
        """Return the last batch that begins below the offset."""
        index = bisect_left(self.bases, offset)
        return self.batches[index - 1] if index else None

    def since(self, offset: int) -> Iterator[Batch]:
        return iter(self.batches[bisect_left(self.bases, offset) :])

    def cut(self, offset: int) -> list[Batch]:
        """Remove and return the batches that end above the offset."""
        if self.end <= offset:
            return []
        keep = bisect_right(self.batches, offset, key=lambda batch: batch.end)
        gone = self.batches[keep:]
        del self.batches[keep:], self.bases[keep:]
        self.end = self.batches[-1].end if self.batches else 0
        self.first_offset = self.first_offset if self.batches else 0
        return gone


class Replica:
    """One broker's replica through one life.

    Below `compacted_to()` a log may have been compacted before it was read, so it proves nothing. `cuts` are the
    truncations so far with what they removed, including those of killed lives before: without a sync, a power loss may
    undo them. `appended_in` is the epoch of its last append; `led` are the epochs that it led. `deleted_to` is its
    highest start offset so far; a crash may have brought back records below. `hole` is where a truncation cut a
    compacted log between two of its records.
    """

    def __init__(
        self,
        broker: int,
        partition: Partition,
        compacted_to: Callable[[], int] = lambda: 0,
    ) -> None:
        self.broker = broker
        self.partition = partition
        self.compacted_to = compacted_to
        self.state: State | None = None
        self.log = Chain()
        self.cuts: list[tuple[int, list[Batch]]] = []
        self.appended_in = -1
        self.led: set[int] = set()
        self.hole: tuple[int, int] = (0, 0)
        self._read_to = NO_POSITION
        """(base offset of a segment, position in it) up to which the log was read."""
        self._source = partition.log
        """The log that was read; a replica that moved to another log directory has another one."""

    def __repr__(self) -> str:
        state = self.state
        if state is None:
            return f"<replica {self.partition.name} on {self.broker}>"
        role = f"leads with ISR {state.isr}" if state.leading else "follows"
        return (
            f"<replica {self.partition.name} on {self.broker}, {role}, epoch {state.epoch}.{state.partition_epoch}, "
            f"{state.start} ≤ HW {state.high_watermark} ≤ {state.end}, synced to {state.recovery_point}>"
        )

    @property
    def first_offset(self) -> int:
        return self.log.first_offset

    @property
    def deleted_to(self) -> int:
        return self.log.deleted_to

    @property
    def records_end(self) -> int:
        """The end of its last record: after a start, a log that ends in a hole ends there, as in Kafka."""
        return self.hole[0] if self.log.end == self.hole[1] else self.log.end

    def cut(self, offset: int) -> list[Batch]:
        gone = self.log.cut(offset)
        if gone:
            self.cuts.append((gone[0].base, gone))
            self.hole = offset, offset
            self._read_to = NO_POSITION
        return gone

    def catch_up(self, disk: SimDisk) -> list[Batch]:
        """Read what was appended since the last call from the files, without the broker."""
        log = self.partition.log
        if log is not self._source:
            self._source, self._read_to = log, NO_POSITION
        self.log.deleted_to = max(self.log.deleted_to, log.log_start_offset)
        if not self.log.batches and log.log_start_offset > 0:
            self.log.skip_to(log.log_start_offset)
        new: list[Batch] = []
        if self.log.end < log.log_end_offset:
            for segment, end in self._unread():
                base, position = self._read_to if self._read_to[0] == segment.base_offset else (segment.base_offset, 0)
                content = disk.inode(segment.path(LOG)).whole()[position : segment.size]
                new += [self.take(header) for header in batches(content) if header.next_offset > self.log.end]
                self._read_to = base, segment.size
                assert self.log.end <= end, f"I2: {self!r} has records beyond {end} in {segment!r}"
        self._take_hole(log.log_end_offset)
        assert self.log.end == log.log_end_offset, f"I2: {self!r} has records up to {self.log.end} only"
        return new

    def _take_hole(self, end: int) -> None:
        """Accept that a truncation cut a log where compaction removed the records below: the log still ends there, as
        Kafka's does (LocalLog.truncateTo).
        """
        if self.log.end < end == self.hole[1] <= self.compacted_to():
            self.hole = self.log.end, end
            self.log.skip_to(end)

    def _unread(self) -> Iterator[tuple[Segment, int]]:
        """Yield the segments that hold unread records, each with the base offset of the next one."""
        log = self.partition.log
        segments = list(log.segments)
        ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
        return ((segment, end) for segment, end in zip(segments, ends, strict=True) if end > self.log.end)

    def take(self, header: BatchHeader) -> Batch:
        chain, limit = self.log, self.compacted_to()
        if len(chain.batches) == 1 and self.first_offset > header.base_offset:  # the log starts within a batch
            chain.skip_to(header.base_offset)
        if header.base_offset > chain.end and chain.end < limit:
            chain.skip_to(header.base_offset)
        producer = producer_of(header)
        if header.next_offset <= limit:
            chain.skip_to(header.next_offset)
            return chain.batches[-1]._replace(base=header.base_offset, producer=producer)
        assert header.base_offset >= chain.end, f"I2: {self!r} has {header} below {chain.end}"
        return chain.append(header.base_offset, header.next_offset, header.leader_epoch, header.crc, producer)


def producer_of(header: BatchHeader) -> tuple[int, int, int, int]:
    """Return (id, epoch, first, last sequence). A marker that compaction emptied does not name its producer, in Kafka
    neither.
    """
    if header.is_control and not header.count:
        return NOBODY
    return header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
