"""Frames of every API and version that are valid, or spoiled in one way that `Frame.change` names."""

import struct
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tidelog.api.registry import APIS
from tidelog.check.fuzz.messages import Piece, drawn, pieces_of
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.primitives import uvarint

BLOCK = 16
"""Frames that are made of one drawn request; each block has a seed of its own."""
BETWEEN_BROKERS_SHARE = 1 / 32
"""Clients' listeners refuse these APIs by their keys alone, so that more of them would test nothing."""
_VARINTS = (0, 1, 2, 127, 128, 65_535, 1_000_001, 2**31 - 1, 2**31, 2**32 - 1, 2**35 - 1)


class Frame(NamedTuple):
    """`data` begins with the frame's length."""

    key: int
    version: int
    change: str
    data: bytes

    @property
    def name(self) -> str:
        return f"{SCHEMAS[self.key].name} v{self.version}, {self.change}"


CLIENTS = [(api.key, version) for api in APIS.values() if api.caller != "broker"
           for version in range(api.low, api.high + 1)]  # fmt: skip
BROKERS = [(api.key, version) for api in APIS.values() if api.caller == "broker"
           for version in range(api.low, api.high + 1)]  # fmt: skip


def frames(seed: int, count: int) -> Iterator[Frame]:
    """The first `count` frames of a seed."""
    for first in range(0, count, BLOCK):
        chance = Random(f"{seed} {first}")  # noqa: S311 - repeated by its seed
        targets = BROKERS if chance.random() < BETWEEN_BROKERS_SHARE else CLIENTS
        key, version = chance.choice(targets)
        pieces = request_pieces(key, version, chance)
        for _ in range(min(BLOCK, count - first)):
            change = chance.choice(_DRAWN_CHANGES)
            yield Frame(key, version, change, CHANGES[change](pieces, chance))


def request_pieces(key: int, version: int, chance: Random) -> list[Piece]:
    request = drawn(SCHEMAS[key].request, version, chance)
    return pieces_of(request, key, version, chance.randrange(2**20), chance.choice((None, "", "fuzz")))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def _valid(pieces: list[Piece], _chance: Random) -> bytes:
    return framed(joined(pieces))


def _flipped(pieces: list[Piece], chance: Random) -> bytes:
    body = bytearray(joined(pieces))
    for _ in range(chance.choice((1, 1, 2, 8))):
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return framed(bytes(body))


def _edges(pieces: list[Piece], chance: Random) -> bytes:
    """Bytes below the header are set to values at the edges."""
    body = bytearray(joined(pieces))
    for _ in range(chance.randrange(1, 5)):
        if len(body) > 8:
            body[chance.randrange(8, len(body))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    return framed(bytes(body))


def _with_size(pieces: list[Piece], chance: Random) -> bytes:
    """One length or count is another number."""
    place = chance.choice([number for number, piece in enumerate(pieces) if piece.form])
    changed = list(pieces)
    changed[place] = _other_size(pieces[place], chance)
    return framed(joined(changed))


def _other_size(piece: Piece, chance: Random) -> Piece:
    if piece.form == "varint":
        return Piece(uvarint(chance.choice(_VARINTS)))
    (actual,) = struct.unpack(">" + piece.form, piece.data)
    most = 2 ** (8 * struct.calcsize(piece.form) - 1) - 1
    number = chance.choice((-1, -2, 0, 1, actual - 1, actual + 1, 1000, most, -most - 1))
    return Piece(struct.pack(">" + piece.form, min(most, max(-most - 1, number))))


def _overlong(pieces: list[Piece], chance: Random) -> bytes:
    """A varint takes more bytes than it needs, or than it may."""
    places = [number for number, piece in enumerate(pieces) if piece.form == "varint"]
    if not places:
        return _with_size(pieces, chance)
    place = chance.choice(places)
    changed = list(pieces)
    number = bytearray(pieces[place].data)
    number[-1] |= 0x80
    changed[place] = Piece(bytes(number) + b"\x80" * chance.choice((0, 1, 2, 3, 4, 8, 20)) + b"\x00")
    return framed(joined(changed))


def _cut(pieces: list[Piece], chance: Random) -> bytes:
    body = joined(pieces)
    return framed(body[: chance.randrange(1, len(body))])


def _doubled(pieces: list[Piece], chance: Random) -> bytes:
    """Some pieces come twice, so that everything after them is read as something else."""
    first = chance.randrange(len(pieces))
    some = pieces[first : first + chance.choice((1, 2, 8))]
    return framed(joined(pieces[:first] + some * chance.choice((2, 2, 50)) + pieces[first:]))


def _longer(pieces: list[Piece], chance: Random) -> bytes:
    return framed(joined(pieces) + chance.randbytes(chance.choice((1, 4, 100))))


def _header(pieces: list[Piece], chance: Random) -> bytes:
    """A key or a version that nothing in the body fits to."""
    key, version, number = struct.unpack(">hhi", pieces[0].data)
    if chance.random() < 0.5:
        key = chance.choice((-1, 4, 52, 77, 999, 10000, 32767, *APIS))
    else:
        version = chance.choice((-1, version - 1, version + 1, 0, 32767, -32768))
    return framed(joined([Piece(struct.pack(">hhi", key, version, number)), *pieces[1:]]))


def _frame_length(pieces: list[Piece], chance: Random) -> bytes:
    """The length of the frame itself: what follows is then read as another frame, or awaited."""
    body = joined(pieces)
    length = chance.choice((-1, 0, 1, 7, len(body) - 1, len(body) + 1, 2**31 - 1, -(2**31), 105_000_000))
    return struct.pack(">i", length) + body


CHANGES: dict[str, Callable[[list[Piece], Random], bytes]] = {
    "valid": _valid,
    "bits flipped": _flipped,
    "bytes at edges": _edges,
    "another length": _with_size,
    "an overlong varint": _overlong,
    "cut short": _cut,
    "parts repeated": _doubled,
    "more bytes": _longer,
    "another header": _header,
    "another frame length": _frame_length,
}
_RARE = {"another frame length"}  # it costs a connection, often only after a while
_DRAWN_CHANGES = [name for name in CHANGES for _ in range(1 if name in _RARE else 10)]
