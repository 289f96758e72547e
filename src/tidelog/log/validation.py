"""What a leader requires of a batch before it becomes part of the log.

A batch is validated by its header and checksum and appended unchanged. Records are parsed only if a rule is about
records (`inspection.py`). Error codes, and the order of the checks, are Kafka's.
"""

from collections.abc import Iterable

from tidelog.errors import ApiError, ErrorCode
from tidelog.log.rules import AppendRules, check_size
from tidelog.model import TopicPartition
from tidelog.ports import Buffer
from tidelog.wire.compression import Compression
from tidelog.wire.records import (
    COMPRESSION_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    header,
    only_batch,
    stamp_log_append_time,
)

_NEWEST_COMPRESSION = int(Compression.ZSTD)


def check_client_batch(buffer: Buffer, rules: AppendRules, now_wall: int) -> BatchHeader:
    """The header of the one batch of a produce request for a partition. Raises ApiError if it is invalid."""
    batch = only_batch(buffer)
    if batch.base_offset != 0:
        raise _invalid(f"the base offset should be 0, but it is {batch.base_offset}")
    if batch.length > rules.max_message_bytes or batch.length > rules.segment_bytes:
        check_size(batch.length, rules)
    check_crc(buffer, batch)
    count = batch.count
    if count <= 0 or batch.last_offset_delta + 1 != count:
        raise _invalid(f"{count} records cannot span offsets 0 to {batch.last_offset_delta}")
    if batch.attributes:
        _check_attributes(batch.attributes)
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise _invalid(f"sequence {batch.base_sequence} of producer {batch.producer_id}")
    if not rules.log_append_time:
        _check_timestamps(batch, rules, now_wall)
    return batch


def _check_attributes(attributes: int) -> None:
    if attributes & CONTROL:
        raise _invalid("clients may not write control records")
    if attributes & COMPRESSION_MASK > _NEWEST_COMPRESSION:
        raise _invalid(f"there is no compression type {attributes & COMPRESSION_MASK}")


def check_own_batch(buffer: Buffer, rules: AppendRules) -> BatchHeader:
    """The header of a coordinator's batch: whole, and within the topic's limit."""
    batch = header(buffer)
    assert batch.length == len(buffer), batch
    check_size(batch.length, rules)
    return batch


def check_follower_batches(
    view: memoryview, found: Iterable[BatchHeader], expected: int, partition: TopicPartition
) -> None:
    """Raises ApiError CORRUPT_MESSAGE unless the batches of a fetch ascend from the `expected` offset, with valid
    checksums."""
    for batch in found:
        if batch.base_offset < expected or batch.last_offset_delta < 0:
            raise ApiError(
                ErrorCode.CORRUPT_MESSAGE, f"{partition}: offset {batch.base_offset} where {expected} was due"
            )
        check_crc(view, batch)
        expected = batch.base_offset + batch.last_offset_delta + 1


def writable(buffer: Buffer) -> bytearray | memoryview:
    """A writable buffer with the batch: the given one if it is writable, otherwise a copy."""
    if isinstance(buffer, memoryview):
        return bytearray(buffer) if buffer.readonly else buffer
    return buffer if isinstance(buffer, bytearray) else bytearray(buffer)


def _check_timestamps(batch: BatchHeader, rules: AppendRules, now_wall: int) -> None:
    """By the header's first and largest timestamps, which bound all others."""
    earliest, latest = batch.base_timestamp, batch.max_timestamp
    if latest != NO_TIMESTAMP and latest - now_wall > rules.after_max_ms:
        raise _untimely(latest, rules, now_wall)
    if earliest != NO_TIMESTAMP and now_wall - earliest > rules.before_max_ms:
        raise _untimely(earliest, rules, now_wall)


def stamp_time(buffer: bytearray | memoryview, batch: BatchHeader, now_wall: int) -> BatchHeader:
    """Set the time of every record to the broker's clock (LogAppendTime), in place."""
    stamp_log_append_time(buffer, batch, now_wall)
    return batch._replace(attributes=batch.attributes | LOG_APPEND_TIME, max_timestamp=now_wall)


def _untimely(timestamp: int, rules: AppendRules, now_wall: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is not within [{now_wall - rules.before_max_ms}, {now_wall + rules.after_max_ms}]",
    )


def _invalid(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, reason)
