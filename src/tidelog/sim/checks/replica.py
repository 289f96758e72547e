"""One replica as the checks see it: the numbers of its partition, and its log as a chain of batches.

Invariant of the chain: two replicas whose batches end at the same offset with the same `chain` hold the same batches
below it, so whole logs are compared by one number.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.sim.disk import SimDisk, SimFile
from tidelog.wire.records import batches

READ_BYTES = 1 << 20


class Batch(NamedTuple):
    """One record batch: offsets [base, end), its epoch, and its content by CRC. `chain` covers all below `end`."""

    base: int
    end: int
    epoch: int
    crc: int
    chain: int


def link(chain: int, base: int, epoch: int, crc: int) -> int:
    return crc32(b"%d %d %d" % (base, epoch, crc), chain)


class State(NamedTuple):
    """What of a partition's numbers matters to the checks; two that are equal need no second look."""

    epoch: int
    partition_epoch: int
    leading: bool
    high_watermark: int
    end: int
    start: int
    recovery_point: int
    isr: tuple[int, ...]
    maximal_isr: frozenset[int]


def state_of(partition: Partition) -> State:
    role, log = partition.role, partition.log
    leading = isinstance(role, Leader)
    return State(
        partition.epoch,
        partition.partition_epoch,
        leading,
        partition.high_watermark,
        log.log_end_offset,
        log.log_start_offset,
        log.recovery_point,
        role.isr if isinstance(role, Leader) else (),
        role.maximal_isr if isinstance(role, Leader) else frozenset(),
    )


@dataclass(slots=True)
class Chain:
    """Batches in ascending order, without gaps between them that the log itself does not have."""

    bases: list[int] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def append(self, base: int, end: int, epoch: int, crc: int) -> Batch:
        previous = self.batches[-1].chain if self.batches else 0
        batch = Batch(base, end, epoch, crc, link(previous, base, epoch, crc))
        self.bases.append(base)
        self.batches.append(batch)
        return batch

    def at(self, base: int) -> Batch | None:
        index = bisect_left(self.bases, base)
        return self.batches[index] if index < len(self.bases) and self.bases[index] == base else None

    def below(self, offset: int) -> Batch | None:
        """The last batch that begins below the offset."""
        index = bisect_left(self.bases, offset)
        return self.batches[index - 1] if index else None

    def chain_at(self, offset: int) -> int:
        batch = self.below(offset)
        return batch.chain if batch else 0

    def since(self, offset: int) -> Iterator[Batch]:
        return iter(self.batches[bisect_left(self.bases, offset) :])

    def cut(self, offset: int) -> list[Batch]:
        """Forget what ends above the offset; returns it."""
        keep = bisect_right([batch.end for batch in self.batches], offset)
        gone = self.batches[keep:]
        del self.batches[keep:], self.bases[keep:]
        return gone


class Replica:
    """One broker's replica through one life."""

    def __init__(self, broker: int, partition: Partition) -> None:
        self.broker = broker
        self.partition = partition
        self.state: State | None = None
        self.log = Chain()

    def __repr__(self) -> str:
        return f"<replica {self.partition.name} on {self.broker}: {self.state}>"

    def catch_up(self, disk: SimDisk) -> list[Batch]:
        """Read what was appended since the last look, past all injected faults."""
        log = self.partition.log
        if not self.log.batches and log.log_start_offset > 0:
            self.log.append(0, log.log_start_offset, -1, 0)
        new: list[Batch] = []
        disk.quiet = True
        try:
            while self.log.end < log.log_end_offset:
                found = log.read(self.log.end, READ_BYTES, log.log_end_offset, at_least_one=True)
                assert found is not None, f"{self!r}: nothing to read at {self.log.end} below the end"
                assert isinstance(found.file, SimFile)
                content = found.file.inode.cached[found.position : found.position + found.length]
                for header in batches(content):
                    assert header.base_offset >= self.log.end, f"{self!r}: {header} lies below {self.log.end}"
                    end = header.base_offset + header.last_offset_delta + 1
                    new.append(self.log.append(header.base_offset, end, header.leader_epoch, header.crc))
        finally:
            disk.quiet = False
        return new
