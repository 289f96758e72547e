"""Messages ↔ bytes. Encoders and decoders are compiled when a message is first used in a version, and kept.

Encoders of requests and responses put the frame's length in front and answer parts, in order, to be written one after
the other; decoders take a frame without its length. A decoded message holds copies, except `records`, which are views
into the frame. Bytes after the message's end are ignored, as in Kafka; everything else that cannot be is a
`ProtocolViolation`.
"""

import struct
from collections.abc import Callable, Generator
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
    """The header of every request; `client_id` is None where the client gave none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_header(frame: Buffer) -> RequestHeader:
    """A request's header, whether or not the API and its version are known."""
    view = memoryview(frame)
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(view)
        schema = SCHEMAS.get(key)
        flexible = schema is not None and schema.is_flexible(version)
        client_id, _ = _rest_of_header(view, length, len(view), flexible)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed request header: shorter than its fields") from fault
    return RequestHeader(key, version, correlation_id, client_id)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Any]:
    """A request. An unknown API or version is a violation, except that ApiVersions in an unknown version comes as an
    empty request under its header: it must be answered."""
    view = memoryview(frame)
    size = len(view)
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(view)
        reader = _requests.get((key, version)) or _request_reader(key, version)
        if size > _COPIED_UP_TO:
            source, read = reader.choose(view, size)
        else:
            source, read = bytes(view), reader.from_bytes
        client_id, position = _rest_of_header(source, length, size, reader.flexible)
        request, _ = read(source, view, position, size)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed request: shorter than its fields") from fault
    return RequestHeader(key, version, correlation_id, client_id), request


def request_in_steps(frame: Buffer, limit: int) -> Generator[None, None, tuple[RequestHeader, Any, int]]:
    """As `decode_request`, with a pause after each `STEP` entries of arrays; also returns their number. More than
    `limit` are a violation."""
    view = memoryview(frame)
    size = len(view)
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(view)
        if key == API_VERSIONS and not SCHEMAS[key].has(version):
            return (*decode_request(frame), 0)
        reader = _requests.get((key, version)) or _request_reader(key, version)
        source, read = reader.choose_in_steps(frame, view, size)
        client_id, position = _rest_of_header(source, length, size, reader.flexible)
        request, _, entries = yield from read(source, view, position, size, limit)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed request: shorter than its fields") from fault
    return RequestHeader(key, version, correlation_id, client_id), request, entries


def decode_response(key: int, version: int, frame: Buffer) -> tuple[int, Any]:
    """The correlation id and the response of an API in the version of its request."""
    view = memoryview(frame)
    size = len(view)
    try:
        reader = _responses.get((key, version)) or _response_reader(key, version)
        source, read = reader.choose(view, size)
        (correlation_id,) = _INT32.unpack_from(view)
        position = 4
        if reader.flexible and key != API_VERSIONS:
            position = skip_tagged_fields(source, 4, size) if source[4] else 5
        response, _ = read(source, view, position, size)
    except _MALFORMED as fault:
        raise ProtocolViolation("malformed response: shorter than its fields") from fault
    return correlation_id, response


def has_records(key: int) -> bool:
    """Whether requests of the API carry records."""
    return _has_records(SCHEMAS[key].request)


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
    encoder, start = _response_encoders.get((key, version)) or _response_encoder(key, version)
    return _frame(encoder, response, bytearray(start.pack(0, correlation_id)))


def response_in_steps(key: int, version: int, correlation_id: int, response: Any) -> Generator[None, None, list[Part]]:
    """As `encode_response`, with a pause after each `STEP` entries of arrays."""
    schema = _schema(key, version)
    encoder = _step_encoders.get((key, version))
    if encoder is None:
        flexible = schema.is_flexible(version)
        encoder = compile_encoder(schema.response, version, flexible=flexible, in_steps=True)
        _step_encoders[key, version] = encoder
    _, start = _response_encoders.get((key, version)) or _response_encoder(key, version)
    parts: list[Any] = []
    end = yield from encoder(response, bytearray(start.pack(0, correlation_id)), parts)
    return _framed(parts, end)


def encode(message: Any, version: int) -> bytes:
    """One message alone. Its records, if it has any, must be bytes."""
    cls = type(message)
    encoder = _encoders.get((cls, version)) or _encoder(cls, version)
    parts: list[Any] = []
    parts.append(encoder(message, bytearray(), parts))
    return b"".join(parts)


def decode(cls: type[T], version: int, buffer: Buffer) -> T:
    """One message alone."""
    view = memoryview(buffer)
    size = len(view)
    reader = _readers.get((cls, version)) or _reader(cls, version)
    try:
        source, read = reader.choose(view, size)
        found: T = read(source, view, 0, size)[0]
    except _MALFORMED as fault:
        raise ProtocolViolation(f"malformed {cls.__name__}: shorter than its fields") from fault
    return found


_Read = Callable[[Buffer, memoryview, int, int], tuple[Any, int]]
_Encode = Callable[[Any, bytearray, list[Any]], bytearray]


class _Reader:
    """The decoders of a message: one for bytes, which is the faster, and for a message that carries records one that
    reads a long frame where it lies."""

    __slots__ = ("_in_steps", "cls", "flexible", "from_bytes", "in_place", "version")

    def __init__(
        self, cls: type[Any], version: int, from_bytes: _Read, in_place: _Read | None, *, flexible: bool
    ) -> None:
        self.cls = cls
        self.version = version
        self.from_bytes = from_bytes
        self.in_place = in_place
        self.flexible = flexible
        self._in_steps: dict[bool, Callable[..., Any]] = {}
        """By whether the frame is read where it lies."""

    def choose(self, view: memoryview, size: int) -> tuple[Buffer, _Read]:
        if size > _COPIED_UP_TO and self.in_place is not None:
            return view, self.in_place
        return bytes(view), self.from_bytes

    def choose_in_steps(self, frame: Buffer, view: memoryview, size: int) -> tuple[Buffer, Callable[..., Any]]:
        in_place = size > _COPIED_UP_TO and self.in_place is not None and not isinstance(frame, bytes)
        source = view if in_place else frame if isinstance(frame, bytes) else bytes(view)
        read = self._in_steps.get(in_place)
        if read is None:
            read = compile_decoder(self.cls, self.version, flexible=self.flexible, view=in_place, in_steps=True)
            self._in_steps[in_place] = read
        return source, read


_INT32 = Struct(">i")
_HEADER = Struct(">hhih")
_REQUEST = Struct(">ihhih")
_RESPONSE = Struct(">ii")
_TAGGED_RESPONSE = Struct(">iix")

_readers: dict[tuple[type[Any], int], _Reader] = {}
_requests: dict[tuple[int, int], _Reader] = {}
_responses: dict[tuple[int, int], _Reader] = {}
_encoders: dict[tuple[type[Any], int], _Encode] = {}
_response_encoders: dict[tuple[int, int], tuple[_Encode, Struct]] = {}
_step_encoders: dict[tuple[int, int], Callable[..., Generator[None, None, bytearray]]] = {}


def _rest_of_header(source: Buffer, length: int, size: int, flexible: bool) -> tuple[str | None, int]:
    """The client id of this length, and where the body begins."""
    position = _HEADER.size
    client_id = None
    if length >= 0:
        position += length
        if position > size:
            refuse("client id: longer than its frame")
        client_id = str(source[_HEADER.size : position], "utf-8", "replace")
    if flexible:
        position = skip_tagged_fields(source, position, size) if source[position] else position + 1
    return client_id, position


def _schema(key: int, version: int) -> Schema:
    schema = SCHEMAS.get(key)
    if schema is None or not schema.has(version):
        refuse(f"request: version {version} of API {key} is not known")
    return schema


def _request_reader(key: int, version: int) -> _Reader:
    if key == API_VERSIONS and not SCHEMAS[key].has(version):
        schema = SCHEMAS[key]
        flexible = schema.is_flexible(version)
        return _Reader(schema.request, schema.min_version, lambda *_: (schema.request(), 0), None, flexible=flexible)
    found = _requests[key, version] = _reader(_schema(key, version).request, version)
    return found


def _response_reader(key: int, version: int) -> _Reader:
    found = _responses[key, version] = _reader(_schema(key, version).response, version)
    return found


def _reader(cls: type[Any], version: int) -> _Reader:
    flexible = _is_flexible(cls, version)
    from_bytes = compile_decoder(cls, version, flexible=flexible, view=False)
    in_place = compile_decoder(cls, version, flexible=flexible, view=True) if _has_records(cls) else None
    found = _readers[cls, version] = _Reader(cls, version, from_bytes, in_place, flexible=flexible)
    return found


def _encoder(cls: type[Any], version: int) -> _Encode:
    found = _encoders[cls, version] = compile_encoder(cls, version, flexible=_is_flexible(cls, version))
    return found


def _response_encoder(key: int, version: int) -> tuple[_Encode, Struct]:
    """The encoder, and the start of the frame. The header of ApiVersions never has tagged fields, so that a client can
    read the answer before it knows what the broker speaks."""
    schema = _schema(key, version)
    start = _TAGGED_RESPONSE if schema.is_flexible(version) and key != API_VERSIONS else _RESPONSE
    found = _response_encoders[key, version] = _encoder(schema.response, version), start
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
    return _framed(parts, encoder(message, start, parts))


def _framed(parts: list[Any], end: bytearray) -> list[Part]:
    """`end` are the bytes behind the last of the parts."""
    if not parts:
        _INT32.pack_into(end, 0, len(end) - 4)
        return [end]
    if end:
        parts.append(end)
    _INT32.pack_into(parts[0], 0, sum(map(part_size, parts)) - 4)
    return parts
