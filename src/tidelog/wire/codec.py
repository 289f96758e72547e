"""Messages ↔ bytes. Encoders and decoders are compiled when a message is first used in a version, and kept.

Encoders of requests and responses put the frame's length in front and answer parts, in order, to be written one after
the other; decoders take a frame without its length. A decoded message holds copies, except `records`, which are views
into the frame. Bytes after the message's end are ignored, as in Kafka; everything else that cannot be is a
`ProtocolViolation`.
"""

import struct
from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from tidelog.effects import Part
from tidelog.errors import ProtocolViolation
from tidelog.ports import Buffer
from tidelog.wire.decoding import compile_decoder
from tidelog.wire.encoding import compile_encoder, part_size
from tidelog.wire.message import fields, versions_of
from tidelog.wire.messages import SCHEMAS, Schema
from tidelog.wire.primitives import refuse, skip_tagged_fields

T = TypeVar("T")

API_VERSIONS = 18
_COPIED_UP_TO = 4096
"""A longer frame that carries records is decoded where it lies."""

_MALFORMED = (struct.error, IndexError, ValueError, OverflowError)


class RequestHeader(NamedTuple):
    """What stands before every request; `client_id` is None where the client gave none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """A request's header and the position of its body, whether or not the API's version is known."""
    try:
        return _header(memoryview(frame))
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed request header") from fault


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """A request. An unknown API or version is a violation, except that ApiVersions in an unknown version comes as an
    empty request under its header: it must be answered."""
    view = memoryview(frame)
    try:
        header, position = _header(view)
        key, version = header.api_key, header.api_version
        decoder = _request_decoders.get((key, version)) or _request_decoder(key, version)
        return header, decoder(view, position)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed request: shorter than its fields") from fault


def decode_response(key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and the response of an API in the version that was asked."""
    view = memoryview(frame)
    try:
        decoder = _response_decoders.get((key, version)) or _response_decoder(key, version)
        (correlation_id,) = _INT32.unpack_from(view)
        position = skip_tagged_fields(view, 4, len(view)) if _has_tags(key, version) else 4
        return correlation_id, decoder(view, position)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed response: shorter than its fields") from fault


def encode_request(key: int, version: int, correlation_id: int, client_id: str | None, request: Any) -> list[Part]:
    """A request's frame, length and header included."""
    schema = _schema(key, version)
    name = (client_id or "").encode()
    start = bytearray(_REQUEST.pack(0, key, version, correlation_id, -1 if client_id is None else len(name)))
    start += name
    if schema.is_flexible(version):
        start.append(0)
    encoder = _encoders.get((schema.request, version)) or _encoder(schema.request, version)
    return _frame(encoder, request, start)


def encode_response(key: int, version: int, correlation_id: int, response: Any) -> list[Part]:
    """A response's frame, length and header included."""
    encoder = _response_encoders.get((key, version)) or _response_encoder(key, version)
    start = _TAGGED_RESPONSE if _has_tags(key, version) else _RESPONSE
    return _frame(encoder, response, bytearray(start.pack(0, correlation_id)))


def encode(message: Any, version: int) -> bytes:
    """One message alone. Its records, if it has any, must be bytes."""
    cls = type(message)
    encoder = _encoders.get((cls, version)) or _encoder(cls, version)
    parts: list[Any] = []
    parts.append(encoder(message, bytearray(), parts))
    return b"".join(parts)


def decode(cls: type[T], version: int, buffer: Buffer) -> T:
    """One message alone."""
    decoder = _decoders.get((cls, version)) or _decoder(cls, version)
    try:
        found: T = decoder(memoryview(buffer), 0)
    except _MALFORMED as fault:
        raise ProtocolViolation(f"malformed {cls.__name__}: shorter than its fields") from fault
    return found


_Decode = Callable[[memoryview, int], Any]
_Encode = Callable[[Any, bytearray, list[Any]], bytearray]

_INT32 = Struct(">i")
_HEADER = Struct(">hhih")
_REQUEST = Struct(">ihhih")
_RESPONSE = Struct(">ii")
_TAGGED_RESPONSE = Struct(">iix")

_decoders: dict[tuple[type[Any], int], _Decode] = {}
_encoders: dict[tuple[type[Any], int], _Encode] = {}
_request_decoders: dict[tuple[int, int], _Decode] = {}
_response_decoders: dict[tuple[int, int], _Decode] = {}
_response_encoders: dict[tuple[int, int], _Encode] = {}


def _header(view: memoryview) -> tuple[RequestHeader, int]:
    key, version, correlation_id, length = _HEADER.unpack_from(view)
    position = _HEADER.size
    client_id = None
    if length >= 0:
        end = position + length
        if end > len(view):
            refuse("client id: longer than its frame")
        client_id = str(view[position:end], "utf-8", "replace")
        position = end
    schema = SCHEMAS.get(key)
    if schema is not None and schema.is_flexible(version):
        position = position + 1 if view[position] == 0 else skip_tagged_fields(view, position, len(view))
    return RequestHeader(key, version, correlation_id, client_id), position


def _has_tags(key: int, version: int) -> bool:
    """Whether a response's header ends with tagged fields. That of ApiVersions never does, so that a client can read it
    before it knows what the broker speaks."""
    return key != API_VERSIONS and SCHEMAS[key].is_flexible(version)


def _schema(key: int, version: int) -> Schema:
    schema = SCHEMAS.get(key)
    if schema is None or not schema.has(version):
        refuse(f"request: version {version} of API {key} is not known")
    return schema


def _request_decoder(key: int, version: int) -> _Decode:
    if key == API_VERSIONS and not SCHEMAS[key].has(version):
        return lambda _view, _position: SCHEMAS[API_VERSIONS].request()
    found = _request_decoders[key, version] = _decoder(_schema(key, version).request, version)
    return found


def _response_decoder(key: int, version: int) -> _Decode:
    found = _response_decoders[key, version] = _decoder(_schema(key, version).response, version)
    return found


def _response_encoder(key: int, version: int) -> _Encode:
    found = _response_encoders[key, version] = _encoder(_schema(key, version).response, version)
    return found


def _decoder(cls: type[Any], version: int) -> _Decode:
    """Where nothing is a view into the frame, and where the frame is short, decoding from bytes is faster."""
    flexible = _is_flexible(cls, version)
    from_bytes = compile_decoder(cls, version, flexible=flexible, view=False)
    from_view = compile_decoder(cls, version, flexible=flexible, view=True) if _has_records(cls) else None

    def decoder(view: memoryview, position: int) -> Any:
        size = len(view)
        if from_view is None or size <= _COPIED_UP_TO:
            return from_bytes(bytes(view), view, position, size)[0]
        return from_view(view, view, position, size)[0]

    _decoders[cls, version] = decoder
    return decoder


def _encoder(cls: type[Any], version: int) -> _Encode:
    found = _encoders[cls, version] = compile_encoder(cls, version, flexible=_is_flexible(cls, version))
    return found


def _is_flexible(cls: Any, version: int) -> bool:
    if cls.__versions__ is None:
        return _schema(cls.__key__, version).is_flexible(version)
    if version not in versions_of(cls.__versions__):
        refuse(f"{cls.__name__}: version {version} is not known")
    return version in versions_of(cls.__flexible__)


def _has_records(cls: type[Any]) -> bool:
    return any(
        field.kind.name == "records" or (isinstance(field.element, type) and _has_records(field.element))
        for field in fields(cls)
    )


def _frame(encoder: _Encode, message: Any, start: bytearray) -> list[Part]:
    """Fill the frame that begins with `start`, whose first four bytes are the place of the length."""
    parts: list[Any] = []
    end = encoder(message, start, parts)
    if not parts:
        _INT32.pack_into(end, 0, len(end) - 4)
        return [end]
    if end:
        parts.append(end)
    _INT32.pack_into(parts[0], 0, sum(map(part_size, parts)) - 4)
    return parts
