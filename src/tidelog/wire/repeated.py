"""Produce requests that differ from an earlier one of their connection in correlation id and records alone: nearly all.

Those need not be decoded again. What is known of a request is its frame before and behind the records, and only where
encoding it gives that very frame; whatever fits is the request again, with other records. Everything else is decoded,
and so are long frames, which pay for it in any case: a view of one would keep its memory.
"""

from struct import Struct
from typing import Any, NamedTuple

from tidelog.effects import FileSlice
from tidelog.wire.codec import RequestHeader, encode_request
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest
from tidelog.wire.primitives import read_uvarint, uvarint

PRODUCE = 0
MOST = 32
"""Requests that are learned of one connection."""
LONGEST_BYTES = 8192

_START = Struct(">hhi")
_LENGTH = Struct(">i")
_PREFIX_BYTES = 4
_MOST_LENGTH_BYTES = 5


class _Known(NamedTuple):
    """`tail` is what follows the records, `data` the part of the request that holds them."""

    version: int
    client_id: str | None
    flexible: bool
    tail: bytes
    request: ProduceRequest
    data: PartitionProduceData


class Repeated:
    """What one connection may send again, by the bytes from its client id to the length of its records. `_at` is where
    those of the last request that was learned end; requests for other partitions of a topic end there, too."""

    __slots__ = ("_at", "_known", "_left")

    def __init__(self) -> None:
        self._at = 0
        self._known: dict[bytes, _Known] = {}
        self._left = MOST

    def __repr__(self) -> str:
        return f"<Repeated {len(self._known)}>"

    def read(self, frame: memoryview) -> tuple[RequestHeader, ProduceRequest] | None:
        """The request, where it is known but for its records. Like the frame that these are a view of, it is good until
        the next one."""
        at = self._at
        known = self._known.get(bytes(frame[_START.size : at])) if at else None
        if known is None or not at + _MOST_LENGTH_BYTES <= len(frame) <= LONGEST_BYTES:
            return None
        key, version, correlation_id = _START.unpack_from(frame)
        if key != PRODUCE or version != known.version:
            return None
        if known.flexible:
            length, begin = read_uvarint(frame, at)
            end = begin + length - 1
        else:
            begin = at + _LENGTH.size
            end = begin + _LENGTH.unpack_from(frame, at)[0]
        if end < begin or frame[end:] != known.tail:
            return None
        known.data.records = frame[begin:end]
        return RequestHeader(key, version, correlation_id, known.client_id), known.request

    def learn(self, frame: memoryview, header: RequestHeader, request: Any) -> None:
        """Remember a request that was decoded from this frame, if it is one that may be repeated."""
        data = _only_batch(request) if header.api_key == PRODUCE and len(frame) <= LONGEST_BYTES else None
        if data is None or not self._left:
            return
        self._left -= 1
        size = len(data.records)  # type: ignore[arg-type]
        head, tail = _around(header, request, data)
        if frame[: len(head)] != head or frame[len(head) + size :] != tail:
            return
        flexible = SCHEMAS[PRODUCE].is_flexible(header.api_version)
        self._at = len(head) - (len(uvarint(size + 1)) if flexible else _LENGTH.size)
        known = _Known(header.api_version, header.client_id, flexible, tail, request, data)
        self._known[head[_START.size : self._at]] = known


def _only_batch(request: ProduceRequest) -> PartitionProduceData | None:
    """The part that holds the records of a request with one batch. Transactional requests are left out, for they may be
    held back, and must not change then."""
    if request.transactional_id is not None or len(request.topic_data) != 1:
        return None
    partitions = request.topic_data[0].partition_data
    return partitions[0] if len(partitions) == 1 and partitions[0].records else None


def _around(header: RequestHeader, request: ProduceRequest, data: PartitionProduceData) -> tuple[bytes, bytes]:
    """What the request's frame is before and behind its records: a slice of a file would not be copied into it."""
    records = data.records
    nowhere: Any = None
    data.records = FileSlice(nowhere, 0, len(records))  # type: ignore[arg-type]
    parts: list[Any] = list(encode_request(*header, request))
    data.records = records
    return bytes(parts[0])[_PREFIX_BYTES:], bytes(parts[2]) if len(parts) > 2 else b""
