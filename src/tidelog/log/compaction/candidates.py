"""What of a log may be compacted now, and which log to compact next: Kafka's choice.

The clean part ends where the last pass did. The dirty part ends at the first segment that may not be compacted: the
active one, one with an offset that is not stable yet, or one younger than `min.compaction.lag.ms`.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.log.log import Log
from tidelog.log.segment import Segment

LONGEST_WAIT = 2**63 - 1


class Candidate(NamedTuple):
    """A log when its `removals` counter had this value, its dirty part [first_dirty, end), and the sizes of both parts
    in bytes. `overdue`: its oldest dirty record is older than `max.compaction.lag.ms`. `refetching`: it has
    damaged batches that are to be replaced by what other replicas kept of them."""

    log: Log
    removals: int
    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    overdue: bool
    refetching: bool = False

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    @property
    def is_cleanable(self) -> bool:
        if self.refetching:
            return True
        if not self.dirty_bytes:
            return False
        return self.overdue or self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def candidate(log: Log, stable: int, wall: int) -> Candidate:
    """`stable`: every record below it is committed and its transaction has ended."""
    start = log.segments.base_offset
    first_dirty = log.cleaned_to if start <= log.cleaned_to <= log.log_end_offset else start
    first_dirty = max(first_dirty, log.log_start_offset)
    clean_bytes = dirty_bytes = 0
    end, oldest = first_dirty, None
    refetched = {segment for (segment, _), found in log.segments.refetched.items() if found.removals == log.removals}
    refetching = False
    for segment, reach in _compactable(log, stable, wall):
        refetching = refetching or segment in refetched
        if reach <= first_dirty:
            clean_bytes += segment.size
        else:
            dirty_bytes += segment.size
            end = reach
            oldest = segment if oldest is None else oldest
    overdue = oldest is not None and _is_overdue(oldest, log.config.max_compaction_lag_ms, wall)
    return Candidate(log, log.removals, first_dirty, end, clean_bytes, dirty_bytes, overdue, refetching)


def _compactable(log: Log, stable: int, wall: int) -> Iterable[tuple[Segment, int]]:
    """The segments that may be rewritten, each with one past its last offset."""
    lag_ms = log.config.min_compaction_lag_ms
    for number in range(len(log.segments) - 1):
        segment, reach = log.segments[number], log.segments.end_of(number, log.log_end_offset)
        if reach > stable or (lag_ms > 0 and segment.largest_timestamp[0] > wall - lag_ms):
            return
        yield segment, reach


def _is_overdue(segment: Segment, lag_ms: int, wall: int) -> bool:
    return lag_ms < LONGEST_WAIT and 0 <= segment.roll_timestamp() < wall - lag_ms


def dirtiest(candidates: Iterable[Candidate]) -> Candidate | None:
    """The log to compact next; None if none is worthwhile."""
    worthy = (one for one in candidates if one.is_cleanable)
    return max(worthy, key=lambda one: (one.refetching, one.overdue, one.dirty_ratio), default=None)
