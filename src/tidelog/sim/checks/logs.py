"""I2 (Q): batches ascend without gaps, epochs never descend, CRCs hold, index entries point at batch starts.

I3 (Q): log matching: replicas with the same epoch at an offset hold the same bytes there and below.

I4 (Q): below the high watermarks of any two replicas are the same records.

I11 (Q): every acknowledged record is in the log of at least one replica, running or not.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations, pairwise

from tidelog.log.index import OffsetIndex
from tidelog.log.names import INDEX, LOG
from tidelog.log.segment import Segment
from tidelog.sim.checks.crashes import Remains
from tidelog.sim.checks.ghosts import Acked, Ghost
from tidelog.sim.checks.replica import Batch, Replica
from tidelog.sim.disk import SimDisk
from tidelog.wire.records import batches, crc_holds


def check_log(replica: Replica) -> None:
    for lower, upper in pairwise(replica.log.batches):
        assert lower.end == upper.base, f"I2: {replica!r} has a gap between {lower} and {upper}"
        assert lower.epoch <= upper.epoch, f"I2: {replica!r} has epochs descend from {lower} to {upper}"


def check_bytes(replica: Replica, disk: SimDisk) -> None:
    """Check that every CRC of the log holds, and that each index entry points at the batch that ends at its offset."""
    for segment in replica.partition.log.segments:
        content = disk.inode(segment.path(LOG)).whole()[: segment.size]
        ends = {}
        for header in batches(content):
            assert crc_holds(content, header), f"I2: {replica!r} holds a broken batch {header}"
            ends[header.position] = header.base_offset + header.last_offset_delta
        check_index(replica, index_of(segment, disk), ends)


def index_of(segment: Segment, disk: SimDisk) -> OffsetIndex:
    """Return the index of a segment; the active one's is only in memory, and an invalid file does not count."""
    path = segment.path(INDEX)
    if segment.is_active:
        return segment.offsets
    content = bytes(disk.inode(path).cached) if disk.exists(path) else b""
    index = OffsetIndex(segment.base_offset, content)
    return index if index.is_sane(segment.size) else OffsetIndex(segment.base_offset)


def check_index(replica: Replica, index: OffsetIndex, ends: Mapping[int, int]) -> None:
    for number in range(len(index)):
        offset, position = index.entry(number)
        assert ends.get(position) == offset, f"I2: {replica!r} has {offset} at {position} in {index!r}"


def check_matching(replicas: list[Replica]) -> None:
    for one, other in combinations(replicas, 2):
        common = highest_common(one, other)
        if common is not None:
            same = one.log.agrees(other.log, common)
            assert same, f"I3: {one!r} and {other!r} share an epoch at {common - 1}, but differ below"


def check_watermarks(replicas: list[Replica]) -> None:
    for one, other in combinations(replicas, 2):
        assert one.state is not None
        assert other.state is not None
        common = min(one.state.high_watermark, other.state.high_watermark)
        assert one.log.agrees(other.log, common), f"I4: {one!r} and {other!r} differ below {common}"


def highest_common(one: Replica, other: Replica) -> int | None:
    """The end of the highest batches with the same base and epoch in both."""
    for batch in reversed(one.log.batches):
        twin: Batch | None = other.log.at(batch.base)
        if twin is not None and twin.epoch == batch.epoch and batch.epoch >= 0:
            return batch.end
    return None


def check_acked(ghost: Ghost, replicas: Iterable[Replica], remains: Iterable[Remains]) -> None:
    if ghost.awaits_rebase:
        return
    logs = [(replica, replica.log.end) for replica in replicas]
    logs += [(left.replica, left.readable_end) for left in remains]
    for acked in ghost.acked.values():
        found = any(holds(replica, acked) and acked.end <= end for replica, end in logs)
        assert found, f"I11: {acked} of {ghost.name} is on none of {[replica for replica, _ in logs]}"


def holds(replica: Replica, acked: Acked) -> bool:
    batch = replica.log.at(acked.base)
    deleted = acked.end <= max(replica.first_offset, replica.partition.log.log_start_offset)
    return deleted or (batch is not None and batch.crc == acked.crc)
