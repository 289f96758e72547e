"""Where a follower cuts its log before it follows a new leader: four generations of Kafka behind one switch.

Production runs KIP_320 only. The older ones exist for the lab and as mutants of the simulator: they lose acknowledged
records or let logs diverge (REPLICATION: truncation, by generation). The oldest brings the controller of its time,
which looks at who is there and not at whether it is the same process as before.
"""

from typing import NamedTuple

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The answer of rule 6: the largest known epoch that is not newer than the asked one, and where it ends."""

    epoch: int
    end_offset: int


class Generation(NamedTuple):
    """`to_high_watermark`: cut to HW on becoming a follower. `asks`: send OffsetsForLeaderEpoch before fetching.
    `trusts_epoch`: use the epoch in its answer (KIP-279). `fenced`: requests carry the current leader epoch, and a
    fetch carries the last fetched one (KIP-320). `trusts_restarts`: a broker that is back at once keeps its place in
    the ISR (before broker epochs, KIP-903)."""

    name: str
    to_high_watermark: bool
    asks: bool
    trusts_epoch: bool
    fenced: bool
    trusts_restarts: bool = False


HIGH_WATERMARK = Generation(
    "high_watermark", to_high_watermark=True, asks=False, trusts_epoch=False, fenced=False, trusts_restarts=True
)
KIP_101 = Generation("kip_101", to_high_watermark=False, asks=True, trusts_epoch=False, fenced=False)
KIP_279 = Generation("kip_279", to_high_watermark=False, asks=True, trusts_epoch=True, fenced=False)
KIP_320 = Generation("kip_320", to_high_watermark=False, asks=False, trusts_epoch=True, fenced=True)

GENERATIONS = {generation.name: generation for generation in (HIGH_WATERMARK, KIP_101, KIP_279, KIP_320)}


class Cut(NamedTuple):
    """Truncate to `offset`; `settled` when the logs then agree, else ask again with the epoch that is left."""

    offset: int
    settled: bool


def cut_point(
    leader: EpochEnd, own: EpochEnd, *, end: int, start: int, high_watermark: int, generation: Generation
) -> Cut:
    """Rule 5: where to cut, given the leader's answer and this log's own (epoch, end) for the answered epoch."""
    if leader.end_offset == UNDEFINED:
        return Cut(min(high_watermark, end), settled=True)
    if not generation.trusts_epoch or own.epoch == UNDEFINED:
        return Cut(max(min(leader.end_offset, end), start), settled=True)
    if own.epoch != leader.epoch:
        return Cut(max(min(own.end_offset, end), start), settled=False)
    return Cut(max(min(leader.end_offset, own.end_offset, end), start), settled=True)
