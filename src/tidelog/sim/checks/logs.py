"""I2 (Q): batches ascend without gaps, epochs never descend, CRCs hold.
I3 (Q): log matching: replicas with the same epoch at an offset hold the same bytes there and below.
I11 (Q): every acknowledged record is in the log of at least one replica.
I18 (Q): the epoch cache's entries strictly ascend, and every epoch in the log begins where the cache says.
"""

from itertools import combinations, pairwise

from tidelog.sim.checks.ghosts import Ghost
from tidelog.sim.checks.replica import Batch, Chain, Replica
from tidelog.sim.disk import SimDisk, SimFile
from tidelog.wire.records import batches, crc_holds


def check_log(replica: Replica) -> None:
    for lower, upper in pairwise(replica.log.batches):
        assert lower.end == upper.base, f"I2: {replica!r} has a gap between {lower} and {upper}"
        assert lower.epoch <= upper.epoch, f"I2: {replica!r} has epochs descend from {lower} to {upper}"
    check_epochs(replica)


def check_epochs(replica: Replica) -> None:
    entries = list(replica.partition.log.epochs)
    for lower, upper in pairwise(entries):
        assert lower.epoch < upper.epoch, f"I18: {replica!r} has entries {entries}"
        assert lower.start_offset < upper.start_offset, f"I18: {replica!r} has entries {entries}"
    known = {entry.epoch: entry.start_offset for entry in entries}
    for epoch, base in first_bases(replica.log).items():
        begins = known.get(epoch)
        if base >= replica.partition.log.log_start_offset:
            assert begins == base, f"I18: {replica!r} has epoch {epoch} from {base}, but its cache says {begins}"


def first_bases(chain: Chain) -> dict[int, int]:
    first: dict[int, int] = {}
    for batch in chain.batches:
        if batch.epoch >= 0:
            first.setdefault(batch.epoch, batch.base)
    return first


def check_bytes(replica: Replica, disk: SimDisk) -> None:
    """Every CRC of the log holds."""
    log = replica.partition.log
    position = log.log_start_offset
    disk.quiet = True
    try:
        while position < log.log_end_offset:
            found = log.read(position, 1 << 20, log.log_end_offset, at_least_one=True)
            assert found is not None
            assert isinstance(found.file, SimFile)
            content = found.file.inode.cached[found.position : found.position + found.length]
            for header in batches(content):
                assert crc_holds(content, header), f"I2: {replica!r} holds a broken batch {header}"
                position = header.base_offset + header.last_offset_delta + 1
    finally:
        disk.quiet = False


def check_matching(replicas: list[Replica]) -> None:
    for one, other in combinations(replicas, 2):
        common = highest_common(one, other)
        if common is not None:
            same = one.log.chain_at(common) == other.log.chain_at(common)
            assert same, f"I3: {one!r} and {other!r} share an epoch at {common - 1}, but differ below"


def highest_common(one: Replica, other: Replica) -> int | None:
    """The end of the highest batches with the same base and epoch in both."""
    for batch in reversed(one.log.batches):
        twin: Batch | None = other.log.at(batch.base)
        if twin is not None and twin.epoch == batch.epoch:
            return batch.end
    return None


def check_acked(ghost: Ghost, replicas: list[Replica]) -> None:
    if ghost.loss_allowed:
        return
    for acked in ghost.acked.values():
        found = [r for r in replicas if (b := r.log.at(acked.base)) is not None and b.crc == acked.crc]
        assert found, f"I11: {acked} of {ghost.name} is on none of {replicas}"
