"""Record batches of format v2 (KIP-98): the header that a broker reads, stamps and passes on; the records that a client
writes and reads.

A broker never looks inside a batch that it can pass on whole. What it must know is in 61 bytes:

    base_offset 8 · length 4 · leader_epoch 4 · magic 1 · crc 4 · attributes 2 · last_offset_delta 4 · base_timestamp 8
    max_timestamp 8 · producer_id 8 · producer_epoch 2 · base_sequence 4 · count 4 · records …

The CRC-32C covers everything from the attributes on, so base offset and leader epoch are stamped without touching it.
Formats v0 and v1, which Kafka 4 no longer accepts, are recognised and refused.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from tidelog.checksums import crc32c
from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Buffer
from tidelog.wire import record_format
from tidelog.wire.compression import MAX_OUTPUT_BYTES, Compression, compress, decompress
from tidelog.wire.record_format import Header, Record

__all__ = ["BatchBuilder", "BatchHeader", "Compression", "Header", "Record"]

MAGIC = 2
HEADER_BYTES = 61
PREFIX_BYTES = 12
"""Base offset and length: what the length field does not count."""
LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
"""The first byte that the CRC covers."""
LAST_OFFSET_DELTA_POSITION = 23
BASE_TIMESTAMP_POSITION = 27
MAX_TIMESTAMP_POSITION = 35
COUNT_POSITION = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
MAX_SEQUENCE = 2**31 - 1

_LONG_BYTES = 1024

_HEADER = Struct(">qiibIhiqqqhii")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_INT64 = Struct(">q")
_COVERED = Struct(">hiqqqhii")
_unpack_header = _HEADER.unpack_from
_new_tuple = tuple.__new__


class BatchHeader(NamedTuple):
    """A batch's header. `length` is the whole batch's, prefix included; `position` is where it was found."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # a tuple's count is of no use here
    position: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def latest_timestamp(self) -> int:
        """-1 if compaction left no record; the header still has a timestamp then."""
        return self.max_timestamp if self.count else NO_TIMESTAMP

    @property
    def last_sequence(self) -> int:
        """Sequences wrap to 0 after 2^31 - 1; NO_SEQUENCE where the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def timestamp_type(self) -> str:
        """As `message.timestamp.type` names it."""
        return "LogAppendTime" if self.attributes & LOG_APPEND_TIME else "CreateTime"

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """`base_timestamp` is then when the batch's tombstones may go (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def end(self) -> int:
        """The position behind the batch."""
        return self.position + self.length


def header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. ApiError CORRUPT_MESSAGE where none can be or its length is impossible,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for formats v0 and v1. That the batch is whole is the caller's to check."""
    if len(buffer) - position < HEADER_BYTES:
        raise _no_header(buffer, position)
    fields = _unpack_header(buffer, position)
    if fields[3] != MAGIC or fields[1] < HEADER_BYTES - PREFIX_BYTES:
        raise _no_header(buffer, position)
    return _new_tuple(BatchHeader, (fields[0], fields[1] + PREFIX_BYTES, *fields[2:], position))


def _no_header(buffer: Buffer, position: int) -> ApiError:
    """Old formats have shorter headers, but their magic is at the same place."""
    if len(buffer) - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] in (0, 1):
        return ApiError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, "record batches before format v2 are not supported")
    return ApiError(ErrorCode.CORRUPT_MESSAGE, f"there is no record batch at byte {position} of {len(buffer)}")


def batches(buffer: Buffer) -> Iterator[BatchHeader]:
    """The headers of all whole batches, in order. An incomplete batch at the end, as a fetch may leave it, is left
    out; anything that cannot become a batch raises as `header` does."""
    position = 0
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        batch = header(buffer, position)
        position += batch.length
        if position > end:
            return
        yield batch
    if end - position > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
        raise _no_header(buffer, position)


def only_batch(buffer: Buffer) -> BatchHeader:
    """The single batch of one partition of a Produce request. ApiError INVALID_RECORD for none, more than one, or
    an old format; CORRUPT_MESSAGE where a length or magic is impossible. The CRC is not checked here."""
    size = len(buffer)
    if size > MAGIC_POSITION and buffer[MAGIC_POSITION] < MAGIC:
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request may only contain record batches of format v2")
    if size < HEADER_BYTES:
        raise ApiError(ErrorCode.INVALID_RECORD, "a produce request must have a record batch in each partition")
    batch = header(buffer)
    if batch.length != size:
        amount = "a whole record batch in each partition" if batch.length > size else "one record batch per partition"
        raise ApiError(ErrorCode.INVALID_RECORD, f"a produce request must contain {amount}")
    return batch


def crc_holds(buffer: Buffer, batch: BatchHeader) -> bool:
    """Whether the batch is whole and its checksum holds."""
    end = batch.position + batch.length
    covered = memoryview(buffer)[batch.position + ATTRIBUTES_POSITION : end]
    return bool(crc32c(covered) == batch.crc and end <= len(buffer))


def check_crc(buffer: Buffer, batch: BatchHeader) -> None:
    """ApiError CORRUPT_MESSAGE unless the batch is whole and its checksum holds."""
    if not crc_holds(buffer, batch):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE, f"the checksum of the batch at offset {batch.base_offset} does not hold"
        )


def stamp(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Give the batch its place, in the buffer itself; the CRC does not cover these fields."""
    _INT64.pack_into(buffer, position, base_offset)
    _LENGTH.pack_into(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, batch: BatchHeader, timestamp: int) -> None:
    """Make `timestamp` the time of every record of the batch (LogAppendTime), in the buffer itself."""
    _ATTRIBUTES.pack_into(buffer, batch.position + ATTRIBUTES_POSITION, batch.attributes | LOG_APPEND_TIME)
    _INT64.pack_into(buffer, batch.position + MAX_TIMESTAMP_POSITION, timestamp)
    _seal(buffer, batch)


def stamp_create_time(buffer: bytearray | memoryview, batch: BatchHeader) -> None:
    """Let the records have their own times again (CreateTime), in the buffer itself."""
    _ATTRIBUTES.pack_into(buffer, batch.position + ATTRIBUTES_POSITION, batch.attributes & ~LOG_APPEND_TIME)
    _seal(buffer, batch)


def _seal(buffer: bytearray | memoryview, batch: BatchHeader) -> None:
    position = batch.position
    covered = memoryview(buffer)[position + ATTRIBUTES_POSITION : batch.end]
    _CRC.pack_into(buffer, position + CRC_POSITION, crc32c(covered))


def records(buffer: Buffer, batch: BatchHeader | None = None, *, limit: int = MAX_OUTPUT_BYTES) -> Iterator[Record]:
    """The records of one whole batch, `batch` or the one at the start of the buffer, decompressed to at most `limit`
    bytes. ApiError INVALID_RECORD, CORRUPT_MESSAGE or MESSAGE_TOO_LARGE where the content is bad; the CRC is not
    checked here."""
    found = batch or header(buffer)
    if found.end > len(buffer):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "a record batch is cut off")
    return decoded(payload_of(buffer, found, limit=limit), found)


def decoded(payload: Buffer, batch: BatchHeader) -> Iterator[Record]:
    """The records of the batch, which are encoded so. ApiError INVALID_RECORD where the content is bad."""
    fixed = batch.max_timestamp if batch.is_log_append_time else None
    return record_format.decode(payload, batch.count, batch.base_offset, batch.base_timestamp, fixed)


def skimmed(payload: bytes, batch: BatchHeader) -> Iterator[Record]:
    """As `decoded`, for who looks at little of each record: long keys and values are views of the payload."""
    is_long = len(payload) > _LONG_BYTES * batch.count
    return decoded(memoryview(payload) if is_long else payload, batch)


class BatchBuilder:
    """One batch in the making: records are encoded as they come, so that its size is known. Offsets are the records'
    positions, unless `append` names one (compaction leaves gaps); times count from the first record's, unless
    `base_timestamp` is set before."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._count = 0
        self.size = HEADER_BYTES
        """The size of the batch, before compression."""
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP
        self.last_offset_delta = -1

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<BatchBuilder {self._count} records, {self.size} bytes>"

    def append(self, record: Record, offset_delta: int | None = None) -> None:
        """Add a record; its own offset is not looked at."""
        if not self._parts and self.base_timestamp == NO_TIMESTAMP:
            self.base_timestamp = record.timestamp
        delta = self.last_offset_delta + 1 if offset_delta is None else offset_delta
        encoded = record_format.encode(
            delta, record.timestamp - self.base_timestamp, record.key, record.value, record.headers
        )
        self._parts.append(encoded)
        self._count += 1
        self.size += len(encoded)
        self.last_offset_delta = delta
        self.max_timestamp = max(self.max_timestamp, record.timestamp)

    def extend(self, payload: bytes, count: int, max_timestamp: int) -> None:
        """Add `count` records that are encoded already, with deltas from the next offset and `base_timestamp` on."""
        self._parts.append(payload)
        self._count += count
        self.size += len(payload)
        self.last_offset_delta += count
        self.max_timestamp = max(self.max_timestamp, max_timestamp)

    @property
    def payload(self) -> bytes:
        """The records as they are encoded."""
        return b"".join(self._parts)

    def build(
        self,
        *,
        base_offset: int = 0,
        leader_epoch: int = -1,
        compression: int = Compression.NONE,
        level: int | None = None,
        attributes: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytes:
        """The batch's bytes. `attributes` takes TRANSACTIONAL, CONTROL, LOG_APPEND_TIME, DELETE_HORIZON."""
        payload = compress(compression, self.payload, level)
        covered = _COVERED.pack(
            attributes | compression,
            max(self.last_offset_delta, 0),
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self._count,
        )
        length = HEADER_BYTES - PREFIX_BYTES + len(payload)
        crc = crc32c(payload, crc32c(covered))
        return b"".join((_PREFIX.pack(base_offset, length, leader_epoch, MAGIC, crc), covered, payload))


_PREFIX = Struct(">qiibI")


def payload_of(buffer: Buffer, batch: BatchHeader, *, limit: int = MAX_OUTPUT_BYTES) -> bytes:
    """The records of one whole batch as they are encoded, decompressed to at most `limit` bytes."""
    return decompress(batch.compression, memoryview(buffer)[batch.position + HEADER_BYTES : batch.end], limit)


def rebuild(batch: BatchHeader, payload: bytes, count: int, max_timestamp: int) -> bytes:
    """The batch with fewer records: place, offsets, producer and base timestamp are those it had."""
    builder = BatchBuilder()
    builder.base_timestamp = batch.base_timestamp
    builder.extend(payload, count, max_timestamp)
    builder.last_offset_delta = batch.last_offset_delta
    return builder.build(
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        compression=batch.compression if count else Compression.NONE,
        attributes=batch.attributes & ~COMPRESSION_MASK,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )


def build(content: Iterable[Record], *, base_offset: int = 0, keep_offsets: bool = False, **how: Any) -> bytes:
    """One batch of the records, numbered from `base_offset`, or at their own offsets with `keep_offsets`.
    `how` is as for `BatchBuilder.build`."""
    builder = BatchBuilder()
    for record in content:
        builder.append(record, record.offset - base_offset if keep_offsets else None)
    return builder.build(base_offset=base_offset, **how)


# Control records: the end of a transaction, written by its coordinator into every partition that took part.

_MARKER_KEY = Struct(">hh")  # version, type
_MARKER_VALUE = Struct(">hi")  # version, coordinator epoch

ABORT, COMMIT = 0, 1


class Marker(NamedTuple):
    """How a transaction ended, and the epoch of the coordinator that ended it."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    marker: Marker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """A control batch with one marker."""
    key = _MARKER_KEY.pack(0, COMMIT if marker.committed else ABORT)
    value = _MARKER_VALUE.pack(0, marker.coordinator_epoch)
    return build(
        [Record(timestamp=timestamp, key=key, value=value)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(record: Record) -> Marker | None:
    """The marker in a control record; None for one of another kind. ApiError INVALID_RECORD where it is too short."""
    if record.key is None or len(record.key) < _MARKER_KEY.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "a control record without a type")
    _version, kind = _MARKER_KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise ApiError(ErrorCode.INVALID_RECORD, "the end of a transaction without a coordinator epoch")
    _version, epoch = _MARKER_VALUE.unpack_from(record.value)
    return Marker(kind == COMMIT, epoch)
