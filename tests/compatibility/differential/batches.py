"""Record batches, good and damaged in one place each. The checksum holds unless a case is about it."""

import struct
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from tidelog.wire import record_format
from tidelog.wire.records import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_BYTES, Record, build

EPOCH_2023 = 1_700_000_000_000
WELL = (b"first", b"second", b"third")

FIELDS = {
    "base_offset": (0, ">q"), "length": (8, ">i"), "leader_epoch": (12, ">i"), "magic": (16, ">b"),
    "attributes": (21, ">h"), "last_offset_delta": (23, ">i"), "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"), "producer_id": (43, ">q"), "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"), "count": (57, ">i"),
}  # fmt: skip


def batch(*values: Any, timestamp: int = EPOCH_2023, headers: Sequence[Any] = (), **fields: Any) -> bytes:
    """A batch of values, or of (key, value) pairs, a millisecond apart."""
    pairs = [value if isinstance(value, tuple) else (None, value) for value in values]
    step = 0 if timestamp < 0 else 1
    content = [
        Record(timestamp=timestamp + number * step, key=key, value=value, headers=headers)
        for number, (key, value) in enumerate(pairs)
    ]
    return build(content, **fields)


def seal(data: bytearray) -> bytes:
    """With the checksum of what is in it."""
    struct.pack_into(">I", data, CRC_POSITION, crc32c(bytes(data[ATTRIBUTES_POSITION:])))
    return bytes(data)


def with_field(good: bytes, name: str, value: int, *, sealed: bool = True) -> bytes:
    """The batch with one field of its header replaced."""
    data = bytearray(good)
    position, form = FIELDS[name]
    struct.pack_into(form, data, position, value)
    return seal(data) if sealed else bytes(data)


def fields_of(values: Sequence[bytes], deltas: Sequence[int]) -> bytes:
    """A batch whose records carry these offset deltas."""
    content = b"".join(
        record_format.encode(delta, number, None, value, ())
        for number, (delta, value) in enumerate(zip(deltas, values, strict=True))
    )
    data = bytearray(batch(*values)[:HEADER_BYTES] + content)
    struct.pack_into(">i", data, 8, len(data) - 12)
    return seal(data)


def old_format(magic: int) -> bytes:
    """A message of format v0 or v1 (checksum by CRC-32, as they have)."""
    from zlib import crc32

    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", EPOCH_2023) if magic else b"")
    body += struct.pack(">i", 1) + b"k" + struct.pack(">i", 60) + b"v" * 60
    return struct.pack(">qiI", 0, len(body) + 4, crc32(body)) + body
