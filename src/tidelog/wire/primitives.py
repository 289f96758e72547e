"""Variable-length integers, and the limits that a length or a count on the wire must keep.

The compiled codecs of `wire.codec` inline the common one-byte case and come here for the rest.
"""

from typing import Never

from tidelog.errors import ProtocolViolation
from tidelog.ports import Buffer

MAX_ARRAY = 1_000_000
MAX_TAGGED_FIELDS = 10_000
_LONGEST = 5
"""Bytes of an unsigned 32-bit varint, at most."""


def refuse(what: str) -> Never:
    """End the decoding: `what` names the field whose bytes cannot be."""
    raise ProtocolViolation(f"malformed {what}")


def refuse_entries(limit: int) -> Never:
    raise ProtocolViolation(f"a request with more than {limit} entries")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint and the position after it. IndexError past the end of the buffer."""
    value = buffer[position] & 0x7F
    if value == buffer[position]:
        return value, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # nearly always, where the codecs did not find one byte
        return value | byte << 7, position + 2
    shift = 7
    for index in range(position + 1, position + _LONGEST):
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    refuse("varint: more than five bytes")


def uvarint(value: int) -> bytes:
    """An unsigned varint's bytes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buffer: Buffer, position: int, end: int) -> int:
    """The position after a structure's tagged fields, none of which is known; `position` is that of their count."""
    count, position = read_uvarint(buffer, position)
    check_tagged_fields(count, end - position)
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            refuse("tagged field: longer than its frame")
    return position


def check_tagged_fields(count: int, left: int) -> None:
    """Every tagged field takes two bytes at least, so that a count that cannot be is refused before it is believed."""
    if count > MAX_TAGGED_FIELDS or count * 2 > left:
        refuse(f"tagged fields: {count} of them in {left} bytes")
