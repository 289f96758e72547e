"""Where a follower truncates its log before it follows a new leader: four generations of Kafka, one class each.

Production runs KIP_320 only. The older ones exist for the lab and as mutants of the simulator: they lose acknowledged
records or let logs diverge (REPLICATION: truncation, by generation). The oldest one brings the controller of its time,
which checks whether a broker is alive, but not whether it is the same process as before.
"""

from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.log.log import Log
from tidelog.model import NO_EPOCH

UNDEFINED = -1


class EpochEnd(NamedTuple):
    """The result of rule 6: the largest known epoch not above the requested one, and where it ends."""

    epoch: int
    end_offset: int


class Truncation(NamedTuple):
    """Truncate to `offset`; if `completed` the logs then agree, otherwise send another request with the remaining
    epoch."""

    offset: int
    completed: bool


class Generation:
    """One method per decision. The base class is production, KIP-320: requests carry the current leader epoch, and a
    fetch carries the last fetched one, so the leader finds where the logs diverge."""

    name = "kip_320"
    trusts_restarts = False
    """The controller lets a broker that is back at once stay in the ISR (before broker epochs, KIP-903)."""
    uses_answered_epoch = True
    """The epoch in the response to OffsetsForLeaderEpoch is used (KIP-279), not only the offset."""

    def __repr__(self) -> str:
        return f"<generation {self.name}>"

    def truncation_on_following(self, high_watermark: int) -> int | None:  # noqa: ARG002
        """Where to truncate as soon as a leader is known, or None."""
        return None

    def requests_epoch_end(self, latest_epoch: int) -> bool:  # noqa: ARG002
        """Whether OffsetsForLeaderEpoch comes before the first fetch."""
        return False

    def fetched_epochs(self, leader_epoch: int, latest_epoch: int) -> tuple[int, int]:
        """(current leader epoch, last fetched epoch) of a fetch."""
        return leader_epoch, latest_epoch

    def truncation(self, leader: EpochEnd, own: EpochEnd, *, end: int, start: int, high_watermark: int) -> Truncation:
        """Rule 5: where to truncate, given the leader's response and this log's own (epoch, end) for the same epoch."""
        if leader.end_offset == UNDEFINED:
            return Truncation(min(high_watermark, end), completed=True)
        if own.epoch == UNDEFINED:
            return Truncation(max(min(leader.end_offset, end), start), completed=True)
        if own.epoch != leader.epoch:
            return Truncation(max(min(own.end_offset, end), start), completed=False)
        return Truncation(max(min(leader.end_offset, own.end_offset, end), start), completed=True)


class _Kip279(Generation):
    """Requests the end of the leader's epoch, and compares epochs; requests are not fenced yet."""

    name = "kip_279"

    def requests_epoch_end(self, latest_epoch: int) -> bool:
        return latest_epoch >= 0

    def fetched_epochs(self, leader_epoch: int, latest_epoch: int) -> tuple[int, int]:  # noqa: ARG002
        return NO_EPOCH, NO_EPOCH


class _Kip101(_Kip279):
    """Uses only the offset of the response."""

    name = "kip_101"
    uses_answered_epoch = False

    def truncation(self, leader: EpochEnd, own: EpochEnd, *, end: int, start: int, high_watermark: int) -> Truncation:
        nothing_known = own._replace(epoch=UNDEFINED)
        return super().truncation(leader, nothing_known, end=end, start=start, high_watermark=high_watermark)


class _HighWatermark(_Kip101):
    """Truncates to its own high watermark, without a request."""

    name = "high_watermark"
    trusts_restarts = True

    def truncation_on_following(self, high_watermark: int) -> int | None:
        return high_watermark

    def requests_epoch_end(self, latest_epoch: int) -> bool:  # noqa: ARG002
        return False


HIGH_WATERMARK, KIP_101, KIP_279, KIP_320 = _HighWatermark(), _Kip101(), _Kip279(), Generation()
GENERATIONS = {generation.name: generation for generation in (HIGH_WATERMARK, KIP_101, KIP_279, KIP_320)}


def epoch_end(log: Log, epoch: int) -> EpochEnd:
    """Rule 6."""
    return EpochEnd(*log.epochs.end_offset_for(epoch, log.log_end_offset))


def diverging(log: Log, last_epoch: int, offset: int) -> EpochEnd | None:
    """Where a log with `last_epoch` below `offset` diverges from this one; None if it does not (KIP-595)."""
    if last_epoch == NO_EPOCH:
        return None if offset <= log.log_end_offset else epoch_end(log, log.epochs.latest)
    found = epoch_end(log, last_epoch)
    if found.end_offset < 0:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return found if found.epoch < last_epoch or found.end_offset < offset else None
