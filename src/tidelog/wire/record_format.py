"""The records inside a batch of format v2: variable-length integers, one after another, relative to the batch.

Nothing here knows of the batch's header. Bytes that are not records raise ApiError INVALID_RECORD and never anything
else: a client reads what any producer wrote.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.ports import Buffer

Header = tuple[str, bytes | None]

MIN_RECORD_BYTES = 7
"""Length, attributes, two deltas, two absent fields and no headers, a byte each."""


class Record(NamedTuple):
    """One record. `timestamp` is in wall milliseconds, -1 where there is none; a None value is a tombstone."""

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()


def varint(value: int) -> bytes:
    """A zig-zag variable-length integer of up to 64 bits."""
    if -64 <= value < 64:
        return _ONE_BYTE[value]
    rest = (value << 1) ^ (value >> 63)
    output = bytearray()
    while rest >= 0x80:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
    return bytes(output)


# 0 to 63, then -64 to -1, so that a negative number finds its place from the end.
_ONE_BYTE = [bytes([2 * value]) for value in range(64)] + [bytes([-2 * value - 1]) for value in range(-64, 0)]
_ABSENT = varint(-1)


def encode(
    offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None, headers: Sequence[Header]
) -> bytes:
    """One record with its length in front."""
    body = b"".join(
        (
            b"\x00",
            varint(timestamp_delta),
            varint(offset_delta),
            _ABSENT if key is None else varint(len(key)),
            b"" if key is None else key,
            _ABSENT if value is None else varint(len(value)),
            b"" if value is None else value,
            _encode_headers(headers) if headers else b"\x00",
        )
    )
    return varint(len(body)) + body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    output = bytearray(varint(len(headers)))
    for name, value in headers:
        raw = name.encode()
        output += varint(len(raw))
        output += raw
        output += _ABSENT if value is None else varint(len(value)) + value
    return bytes(output)


def decode(
    payload: Any, count: int, base_offset: int, base_timestamp: int, fixed_timestamp: int | None
) -> Iterator[Record]:
    """The `count` records of an uncompressed payload, bytes or a view of them, of which keys and values are slices;
    `fixed_timestamp` is what LogAppendTime puts over their own."""
    if not 0 <= count <= len(payload) // MIN_RECORD_BYTES:
        raise _refused(f"{count} records cannot be in {len(payload)} bytes")
    position = 0
    try:
        for _ in range(count):
            record, position = _decode_one(payload, position, base_offset, base_timestamp, fixed_timestamp)
            yield record
    except IndexError:
        raise _refused("a record is cut off") from None
    except UnicodeDecodeError:
        raise _refused("a header's name is not UTF-8") from None
    if position != len(payload):
        raise _refused(f"{len(payload) - position} bytes follow the last record")


class Outlines(NamedTuple):
    """Neighbouring records: where they lie in their payload, and what compaction asks of them, a list for each field.
    Nothing else of them is decoded. The first record lies between the first two of `bounds`, and so on; `times` are
    timestamp deltas, `values_at` is where the length of each value stands."""

    bounds: list[int]
    times: list[int]
    deltas: list[int]
    keys: list[bytes | None]
    values_at: list[int]

    def __len__(self) -> int:
        return len(self.keys)

    def has_value(self, payload: bytes, number: int) -> bool:
        """Whether the record of this number is not a tombstone."""
        return not payload[self.values_at[number]] & 1


def outline(payload: bytes, count: int, most: int) -> Iterator[Outlines]:
    """The records of an uncompressed payload by their places, at most so many at once. ApiError INVALID_RECORD as
    `decode`, though what follows a key is not looked at."""
    if not 0 <= count <= len(payload) // MIN_RECORD_BYTES:
        raise _refused(f"{count} records cannot be in {len(payload)} bytes")
    end = 0
    try:
        for left in range(count, 0, -most):
            found = Outlines([end], [], [], [], [])
            end = _outline(payload, end, min(left, most), found)
            yield found
    except IndexError:
        raise _refused("a record is cut off") from None
    if end != len(payload):
        raise _refused(f"{len(payload) - end} bytes follow the last record")


def _outline(payload: bytes, end: int, count: int, found: Outlines) -> int:
    """Written out as `_decode_one` is, and without an object for each record: it is the inner loop of compaction."""
    bound, time, add_delta = found.bounds.append, found.times.append, found.deltas.append
    add_key, value_at, size = found.keys.append, found.values_at.append, len(payload)
    for _ in range(count):
        number, position = payload[end], end + 1
        if number & 0x80:
            second = payload[position]
            if second < 0x80:
                number, position = number & 0x7F | second << 7, end + 2
            else:
                number, position = _long_varint(payload, position, number)
        end = position + (number >> 1)
        if number & 1 or end > size:
            raise _refused("a record is longer than its batch")
        bound(end)
        number = payload[position + 1]
        position += 2
        if number & 0x80:
            number, position = _long_varint(payload, position, number)
        time((number >> 1) ^ -(number & 1))
        number = payload[position]
        position += 1
        if number & 0x80:
            number, position = _long_varint(payload, position, number)
        add_delta((number >> 1) ^ -(number & 1))
        number = payload[position]
        position += 1
        if number & 0x80:
            number, position = _long_varint(payload, position, number)
        if number & 1:
            add_key(None)
        else:
            stop = position + (number >> 1)
            if stop > end:
                raise _refused("a field is longer than its record")
            add_key(payload[position:stop])
            position = stop
        payload[position]  # the length of the value is there
        value_at(position)
    return end


def _decode_one(
    payload: bytes, position: int, base_offset: int, base_timestamp: int, fixed_timestamp: int | None
) -> tuple[Record, int]:
    """One byte suffices for most numbers, so that case is written out: it is the inner loop of every consumer."""
    length = payload[position]
    position += 1
    if length & 0x80:
        length, position = _long_varint(payload, position, length)
    end = position + (length >> 1)
    if length & 1 or end > len(payload):
        raise _refused("a record is longer than its batch")
    position += 1  # attributes: none are defined

    delta = payload[position]
    position += 1
    if delta & 0x80:
        delta, position = _long_varint(payload, position, delta)
    timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1)) if fixed_timestamp is None else fixed_timestamp

    delta = payload[position]
    position += 1
    if delta & 0x80:
        delta, position = _long_varint(payload, position, delta)
    offset = base_offset + ((delta >> 1) ^ -(delta & 1))

    key, position = _field(payload, position, end)
    value, position = _field(payload, position, end)
    headers: Sequence[Header] = ()
    if payload[position]:
        headers, position = _decode_headers(payload, position, end)
    else:
        position += 1
    if position != end:
        raise _refused("a record's fields and its length disagree")
    return Record(offset, timestamp, key, value, headers), end


def _field(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length = payload[position]
    position += 1
    if length & 0x80:
        length, position = _long_varint(payload, position, length)
    if length & 1:
        return None, position  # every negative length is read as absent, as Kafka does
    stop = position + (length >> 1)
    if stop > end:
        raise _refused("a field is longer than its record")
    return payload[position:stop], stop


def headers_at(payload: bytes, position: int, end: int) -> list[Header]:
    """The headers of the record that ends at `end`, from where their count stands."""
    try:
        found, position = _decode_headers(payload, position, end)
    except IndexError:
        raise _refused("a record is cut off") from None
    except UnicodeDecodeError:
        raise _refused("a header's name is not UTF-8") from None
    if position != end:
        raise _refused("a record's fields and its length disagree")
    return found


def _decode_headers(payload: bytes, position: int, end: int) -> tuple[list[Header], int]:
    count = payload[position]
    position += 1
    if count & 0x80:
        count, position = _long_varint(payload, position, count)
    if count & 1 or count >> 1 > end - position:
        raise _refused("an impossible number of headers")
    headers: list[Header] = []
    for _ in range(count >> 1):
        name, position = _field(payload, position, end)
        if name is None:
            raise _refused("a header without a name")
        value, position = _field(payload, position, end)
        headers.append((str(name, "utf-8"), value))
    return headers, position


def _long_varint(payload: bytes, position: int, first: int) -> tuple[int, int]:
    """The zig-zag form (not yet undone) of a number whose first byte says that more follow; mostly one more."""
    byte = payload[position]
    position += 1
    value = first & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position
    for shift in range(14, 70, 7):
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise _refused("a number of more than ten bytes")


def _refused(reason: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"not a record batch: {reason}")
