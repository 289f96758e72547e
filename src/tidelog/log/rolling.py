"""When a segment is full: by size, by the range of its offsets and of its indexes, or by time."""

from bisect import bisect_left
from collections.abc import Sequence
from zlib import crc32

from tidelog.config.topic import TopicConfig
from tidelog.log.index import MAX_RELATIVE_OFFSET
from tidelog.log.rules import AppendRules
from tidelog.log.segment import Segment
from tidelog.model import Time, TopicPartition
from tidelog.wire.records import BatchHeader


def waited_ms(segment: Segment, max_timestamp: int, now: Time) -> int:
    """Milliseconds since the segment's first batch, by the records' timestamps if they have any."""
    first = segment.first_timestamp
    if first < 0 and segment.size:
        first = segment.roll_timestamp()
    return max_timestamp - first if first >= 0 and max_timestamp >= 0 else now.wall - segment.created


def roll_age_ms(config: TopicConfig, rules: AppendRules, partition: TopicPartition) -> int:
    """The age at which a segment is rolled: segment.ms less the partition's own jitter, and for a compacted log at most
    max.compaction.lag.ms."""
    jitter = config.segment_jitter_ms
    age_ms = rules.segment_ms - (crc32(str(partition).encode()) % jitter if jitter > 0 else 0)
    return min(age_ms, config.max_compaction_lag_ms) if rules.compacted else age_ms


def has_room(
    segment: Segment, batch: BatchHeader, last_offset: int, rules: AppendRules, roll_ms: int, now: Time
) -> bool:
    """Whether the leader's next batch, which ends at `last_offset`, fits into the segment."""
    return segment.has_room(batch.length, last_offset, rules.segment_bytes, rules.segment_index_bytes) and not (
        segment.size and waited_ms(segment, batch.max_timestamp, now) > roll_ms
    )


def count_fitting(segment: Segment, found: Sequence[BatchHeader], rules: AppendRules, roll_ms: int, now: Time) -> int:
    """How many of the batches fit into the segment. An empty one takes at least one if it can hold the offset: a
    follower must not refuse what its leader accepted."""
    if _fits(segment, found, rules, roll_ms, now):
        return len(found)
    count = bisect_left(
        range(len(found)), True, key=lambda last: not _fits(segment, found[: last + 1], rules, roll_ms, now)
    )
    if count == 0 and segment.size == 0 and found[0].last_offset - segment.base_offset <= MAX_RELATIVE_OFFSET:
        return 1
    return count


def _fits(segment: Segment, run: Sequence[BatchHeader], rules: AppendRules, roll_ms: int, now: Time) -> bool:
    length = run[-1].end - run[0].position
    entries = min(len(run), length // max(1, segment.index_interval) + 1)
    if not segment.has_room(length, run[-1].last_offset, rules.segment_bytes, rules.segment_index_bytes, entries):
        return False
    newest = max(batch.max_timestamp for batch in run)
    return not segment.size or waited_ms(segment, newest, now) <= roll_ms


def base_for(batch: BatchHeader, log_end_offset: int) -> int:
    """0, which means the end of the log, even if offsets are missing up to the batch: recovery takes a gap between two
    segments for a lost segment and would drop what follows."""
    is_far = batch.last_offset - log_end_offset > MAX_RELATIVE_OFFSET
    return batch.base_offset if is_far else 0
