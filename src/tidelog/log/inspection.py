"""Inspect the records of a batch: a compacted topic refuses records without a key, and a topic with its own
`compression.type` stores them in that.

A few kilobytes may inflate to a hundred megabytes, and a small batch may hold a million records. So more than
`INLINE_BYTES` raise `LargeBatch`: then `inspect` runs on a thread, and the request waits. Its result depends only on
its arguments.
"""

from tidelog.errors import ApiError, ErrorCode
from tidelog.log.rules import AppendRules, check_size
from tidelog.ports import Buffer
from tidelog.wire import record_format
from tidelog.wire.compression import MAX_OUTPUT_BYTES, Compression
from tidelog.wire.records import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchBuilder,
    BatchHeader,
    header,
    payload_of,
    skimmed,
)

INLINE_BYTES = 64 * 1024
"""Records up to this size are inspected on the event loop."""
_INLINE_COMPRESSED = 16 * 1024
"""Decompressing this many bytes takes a few milliseconds at most, with any codec."""
_INFLATED_PER_BYTE = 16
"""An inspected batch may inflate to `max.message.bytes` times this."""
_MOST_LISTED = 1000
"""The number of records without a key that an answer names."""
KEPT_ATTRIBUTES = 0xFFFF & ~COMPRESSION_MASK


class LargeBatch(Exception):
    """The batch must not be inspected on the event loop."""


def most_inflated(rules: AppendRules) -> int:
    """How many bytes the records of a batch may be once they are decompressed."""
    return min(MAX_OUTPUT_BYTES, max(INLINE_BYTES, _INFLATED_PER_BYTE * rules.max_message_bytes))


def is_inspected(batch: BatchHeader, rules: AppendRules) -> bool:
    """Whether the topic requires it."""
    return rules.compacted or (rules.compression is not None and rules.compression != batch.compression)


def small_payload(buffer: Buffer, batch: BatchHeader) -> bytes:
    """The records of the batch as they are encoded. Raises LargeBatch if they are large."""
    if batch.length - HEADER_BYTES > (INLINE_BYTES if batch.compression == Compression.NONE else _INLINE_COMPRESSED):
        raise LargeBatch
    try:
        return payload_of(buffer, batch, limit=INLINE_BYTES)
    except ApiError as error:
        if error.code == ErrorCode.MESSAGE_TOO_LARGE:
            raise LargeBatch from error
        raise


def kept(records: Buffer, batch: BatchHeader, rules: AppendRules, *, from_client: bool) -> tuple[Buffer, BatchHeader]:
    """The batch as the topic keeps it, at once; raises LargeBatch as above. Of the broker's own batches only the
    compression may differ."""
    result = None
    if from_client:
        result = inspect_payload(small_payload(records, batch), batch, rules)
    elif rules.compression not in (None, batch.compression) and not batch.is_control:
        result = inspect(records, batch, rules._replace(compacted=False))
    return (records, batch) if result is None else (result, header(result))


def inspect(buffer: Buffer, batch: BatchHeader, rules: AppendRules) -> bytes | None:
    """The batch as the topic keeps it; None where it stays as it is. Raises ApiError if it is refused."""
    limit = most_inflated(rules)
    if batch.count * record_format.MIN_RECORD_BYTES > limit:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"{batch.count} records are more than {limit} bytes")
    return inspect_payload(payload_of(buffer, batch, limit=limit), batch, rules)


def inspect_payload(payload: bytes, batch: BatchHeader, rules: AppendRules) -> bytes | None:
    """As `inspect`, of a batch with these records."""
    batch = batch._replace(base_offset=0)
    keyless: list[int] = []
    first = latest = NO_TIMESTAMP
    is_numbered = True
    for number, record in enumerate(skimmed(payload, batch)):
        if number == 0:
            first = record.timestamp
        latest = max(latest, record.timestamp)
        is_numbered = is_numbered and record.offset == number
        if record.key is None and len(keyless) < _MOST_LISTED:
            keyless.append(number)
    if rules.compacted and keyless:
        raise ApiError(ErrorCode.INVALID_RECORD, "a compacted topic accepts no record without a key", records=keyless)
    if rules.compression is None or rules.compression == batch.compression:
        return None
    builder = BatchBuilder()
    builder.base_timestamp = first
    is_kept = is_numbered and first == batch.base_timestamp and not batch.is_log_append_time
    builder.extend(payload if is_kept else _encoded_again(payload, batch, first), batch.count, latest)
    result = builder.build(
        compression=rules.compression,
        level=rules.level,
        attributes=batch.attributes & KEPT_ATTRIBUTES,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
    check_size(len(result), rules)
    return result


def _encoded_again(payload: bytes, batch: BatchHeader, base_timestamp: int) -> bytes:
    """The records, numbered from 0, with their times from the first one's on."""
    output = bytearray()
    for number, record in enumerate(skimmed(payload, batch)):
        output += record_format.encode(
            number, record.timestamp - base_timestamp, record.key, record.value, record.headers
        )
    return bytes(output)
