"""Drawn requests, and their bytes in pieces, so that each length and each count can be found and replaced.

This encoder follows the declarations at run time, independently of the compiled one in `wire.encoding`; tests compare
the two.
"""

import struct
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tidelog.wire.message import Field, Kind, fields, string, versions_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.primitives import uvarint
from tidelog.wire.records import Record, build

NAMES = ("", "t", "nope", "a b", "0", "x" * 300, "\u00e9\u4e2d", "..", "__consumer_offsets")
IDS = (bytes(16), bytes(range(16)), b"\xff" * 16)
TIMES_MS = (-1, 0, 1, 20)
"""Most times are short: a request that waits holds up those behind it on its connection."""
DEEPEST = 4
EDGE_SHARE = 1 / 8


class Piece(NamedTuple):
    """Bytes of a request. `form` is how a length or a count is written: "h", "i" or "varint", else ""."""

    data: bytes
    form: str = ""


def drawn(cls: type[Any], version: int, chance: Random, depth: int = 0) -> Any:
    """A message whose fields are drawn, as far as the version has them."""
    made = cls()
    for field in fields(cls):
        if version in versions_of(field.versions):
            setattr(made, field.name, _value(field, version, chance, depth))
    return made


def _value(field: Field, version: int, chance: Random, depth: int) -> Any:
    if version in versions_of(field.nullable) and chance.random() < EDGE_SHARE:
        return None
    if field.kind.name == "array":
        count = chance.choice((0, 1, 1, 2, 3)) if depth < DEEPEST else 0
        return [_element(field.element, version, chance, depth) for _ in range(count)]
    if field.kind.name == "struct":
        return drawn(field.element, version, chance, depth + 1)
    if field.name.endswith("_ms") and chance.random() > EDGE_SHARE:
        return chance.choice(TIMES_MS)
    return _scalar(field.kind, chance)


def _element(element: Any, version: int, chance: Random, depth: int) -> Any:
    return _scalar(element, chance) if isinstance(element, Kind) else drawn(element, version, chance, depth + 1)


def _scalar(kind: Kind, chance: Random) -> Any:
    draw = _SCALARS.get(kind.name)
    if draw is not None:
        return draw(chance)
    bits = 8 * struct.calcsize(kind.code)
    low, high = (0, 2**bits - 1) if kind.code.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return chance.choice((low, high)) if chance.random() < EDGE_SHARE else max(low, chance.choice((-2, -1, 0, 1, 2, 5)))


def _records(chance: Random) -> bytes:
    if chance.random() < EDGE_SHARE:
        return chance.randbytes(chance.choice((0, 1, 60, 200)))
    content = [Record(timestamp=chance.choice((-1, 0, 2**40)), key=b"k", value=b"v" * chance.choice((0, 1, 100)))]
    data = build(content * chance.choice((1, 2)), producer_id=chance.choice((-1, 1)), producer_epoch=0)
    if chance.random() < 0.5:
        return data
    changed = bytearray(data)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


_SCALARS: dict[str, Callable[[Random], Any]] = {
    "boolean": lambda chance: chance.random() < 0.5,
    "uuid": lambda chance: chance.choice(IDS),
    "float64": lambda chance: chance.choice((0.0, -1.0, 1e300, float("inf"))),
    "string": lambda chance: chance.choice(NAMES),
    "binary": lambda chance: chance.randbytes(chance.choice((0, 1, 20, 300))),
    "records": _records,
}


def pieces_of(request: Any, key: int, version: int, correlation_id: int, client_id: str | None) -> list[Piece]:
    """A request with its header, without the length of the frame."""
    name = (client_id or "").encode()
    flexible = SCHEMAS[key].is_flexible(version)
    start = [
        Piece(struct.pack(">hhi", key, version, correlation_id)),
        Piece(struct.pack(">h", -1 if client_id is None else len(name)), "h"),
        Piece(name),
    ]
    writer = _Writer(version, flexible=flexible)
    if flexible:
        writer.size(0)
    writer.structure(request)
    return start + writer.pieces


class _Writer:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.pieces: list[Piece] = []
        self._version = version
        self._flexible = flexible

    def size(self, value: int, form: str = "varint") -> None:
        """A length or a count that is written as it is."""
        self.pieces.append(Piece(uvarint(value) if form == "varint" else struct.pack(">" + form, value), form))

    def structure(self, message: Any) -> None:
        present = [each for each in fields(message) if self._version in versions_of(each.versions)]
        for field in present:
            if field.tag is None:
                self._field(field, getattr(message, field.name))
        if self._flexible:
            self._tagged([(each, getattr(message, each.name)) for each in present if each.tag is not None])

    def _tagged(self, values: list[tuple[Field, Any]]) -> None:
        given = [(field, value) for field, value in values if value != _default(field)]
        self.size(len(given))
        for field, value in sorted(given, key=lambda each: each[0].tag or 0):
            inner = _Writer(self._version, flexible=True)
            inner._field(field, value)
            self.pieces.append(Piece(uvarint(field.tag or 0)))
            self.size(sum(len(piece.data) for piece in inner.pieces))
            self.pieces += inner.pieces

    def _field(self, field: Field, value: Any) -> None:
        if field.kind.name == "struct":
            if self._version in versions_of(field.nullable):
                null = b"\xff" if field.tag is None else b"\x00"
                self.pieces.append(Piece(null if value is None else b"\x01"))
            if value is not None:
                self.structure(value)
        elif field.kind.name == "array":
            self._sized(value, "i")
            for each in value or ():
                self._element(field.element, each)
        else:
            self._element(field.kind, value)

    def _element(self, element: Any, value: Any) -> None:
        if not isinstance(element, Kind):
            self.structure(value)
        elif element.code:
            self.pieces.append(Piece(struct.pack(">" + element.code, value)))
        else:
            data = value.encode() if isinstance(value, str) else value
            self._sized(data, "h" if element is string else "i")
            self.pieces.append(Piece(data or b""))

    def _sized(self, value: Any, form: str) -> None:
        """The length or count of a value, which may be null."""
        if self._flexible:
            self.size(0 if value is None else len(value) + 1)
        else:
            self.size(-1 if value is None else len(value), form)


def _default(field: Field) -> Any:
    return field.default() if callable(field.default) else field.default
