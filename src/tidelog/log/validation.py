"""What a leader requires of a batch before it becomes part of the log.

A batch is validated by its header and checksum and appended unchanged. Records are parsed only if a rule is about
records: a compacted topic refuses records without a key, and a topic with its own `compression.type` recompresses.
Error codes, and the order of the checks, are Kafka's.
"""

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.config.topic import TopicConfig
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.ports import Buffer
from tidelog.wire.compression import Compression, named
from tidelog.wire.records import (
    COMPRESSION_MASK,
    CONTROL,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    build,
    check_crc,
    header,
    only_batch,
    records,
    stamp_log_append_time,
)

KEPT_ATTRIBUTES = 0xFFFF & ~COMPRESSION_MASK
_NEWEST_COMPRESSION = int(Compression.ZSTD)


class AppendRules(NamedTuple):
    """The options that an append needs, read once from a configuration. Sizes in bytes, times in ms."""

    segment_bytes: int
    segment_index_bytes: int
    segment_ms: int
    max_message_bytes: int
    before_max_ms: int
    after_max_ms: int
    log_append_time: bool
    compacted: bool
    compression: Compression | None
    level: int | None
    flush_messages: int
    flush_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> "AppendRules":
        own = config.compression_type
        compression = None if own == "producer" else named("none" if own == "uncompressed" else own)
        return cls(
            segment_bytes=config.internal_segment_bytes or config.segment_bytes,
            segment_index_bytes=config.segment_index_bytes,
            segment_ms=config.segment_ms,
            max_message_bytes=config.max_message_bytes,
            before_max_ms=config.message_timestamp_before_max_ms,
            after_max_ms=config.message_timestamp_after_max_ms,
            log_append_time=config.message_timestamp_type == "LogAppendTime",
            compacted="compact" in config.cleanup_policy,
            compression=compression,
            level=_level(config, compression),
            flush_messages=config.flush_messages,
            flush_ms=config.flush_ms,
        )


def _level(config: TopicConfig, compression: Compression | None) -> int | None:
    """The compression level in the codec's own numbers; gzip's -1 is its default."""
    match compression:
        case Compression.GZIP:
            return None if config.compression_gzip_level < 0 else config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


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
    if rules.compacted:
        check_keys(buffer, batch)
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


def check_size(length: int, rules: AppendRules) -> None:
    if length > rules.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {length} bytes, max.message.bytes is {rules.max_message_bytes}",
        )
    if length > rules.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {length} bytes, segment.bytes is {rules.segment_bytes}"
        )


def check_keys(buffer: Buffer, batch: BatchHeader) -> None:
    keyless = [number for number, record in enumerate(records(buffer, batch)) if record.key is None]
    if keyless:
        raise ApiError(ErrorCode.INVALID_RECORD, "a compacted topic accepts no record without a key", records=keyless)


def _check_timestamps(batch: BatchHeader, rules: AppendRules, now_wall: int) -> None:
    """By the header's first and largest timestamps, which bound all others."""
    earliest, latest = batch.base_timestamp, batch.max_timestamp
    if latest != NO_TIMESTAMP and latest - now_wall > rules.after_max_ms:
        raise _untimely(latest, rules, now_wall)
    if earliest != NO_TIMESTAMP and now_wall - earliest > rules.before_max_ms:
        raise _untimely(earliest, rules, now_wall)


def recompressed(buffer: Buffer, batch: BatchHeader, rules: AppendRules) -> bytes:
    """The same records in the topic's compression. Raises ApiError if that makes the batch too large."""
    assert rules.compression is not None
    result = build(
        records(buffer, batch),
        compression=rules.compression,
        level=rules.level,
        attributes=batch.attributes & KEPT_ATTRIBUTES,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    check_size(len(result), rules)
    return result


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
