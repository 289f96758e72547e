"""Which of the oldest segments may be deleted: by age, by size, or because they are below the log's start (Kafka's
rules).

A segment with records above the high watermark stays, whatever its age, so that the log's start never passes the high
watermark.
"""

from collections.abc import Callable

from tidelog.config.topic import TopicConfig
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments

Expired = Callable[[Segment, int], bool]
"""(segment, one past its last offset) → whether it may be deleted."""


def deletable(
    segments: Segments,
    config: TopicConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_wall: int,
) -> int:
    """The number of the oldest segments to delete now; the active one counts if it has records."""
    ends = [segments.end_of(number, log_end_offset) for number in range(len(segments))]
    passed = _leading(segments, ends, high_watermark, lambda _, end: end <= log_start_offset)
    passed = min(passed, len(segments) - 1)
    if "delete" not in config.cleanup_policy:
        return passed
    return max(
        passed,
        _leading(segments, ends, high_watermark, _by_size(segments.size, config.retention_bytes)),
        _leading(segments, ends, high_watermark, _by_age(now_wall, config.retention_ms)),
    )


def _leading(segments: Segments, ends: list[int], high_watermark: int, expired: Expired) -> int:
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        is_empty_active = segment.is_active and segment.size == 0
        if is_empty_active or end > high_watermark or not expired(segment, end):
            break
        count += 1
    return count


def _by_age(now_wall: int, retention_ms: int) -> Expired:
    """Records without timestamps count as old as the time this process has had their segment."""

    def expired(segment: Segment, _end: int) -> bool:
        if retention_ms < 0:
            return False
        newest, _ = segment.largest_timestamp
        return now_wall - (newest if newest >= 0 else segment.created) > retention_ms

    return expired


def _by_size(size: int, retention_bytes: int) -> Expired:
    """The remaining segments must still have at least `retention_bytes`."""
    surplus = size - retention_bytes

    def expired(segment: Segment, _end: int) -> bool:
        nonlocal surplus
        if retention_bytes < 0 or surplus < segment.size:
            return False
        surplus -= segment.size
        return True

    return expired
