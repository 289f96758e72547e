"""The transaction index of a segment (`.txnindex`, Kafka's version 0): which aborted transactions ended in it.

    version int16 · producer id 8 · first offset 8 · last offset 8 (the marker's) · last stable offset 8

Entries are in the order of their markers. A reader of committed records gets, with records from `start` on and below
`end`, the entries of every transaction that has records there (KIP-98); an entry's last stable offset tells when no
later entry can have: below it every transaction had ended when its marker was written.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

VERSION = 0
_ENTRY = Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size


class Aborted(NamedTuple):
    """An aborted transaction; `last_offset` is its marker's offset, `last_stable_offset` that of the log after the
    marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """`content` is the content of the file."""

    __slots__ = ("content",)

    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.content = bytearray(content)

    def __repr__(self) -> str:
        return f"<TransactionIndex {len(self)} entries>"

    def __len__(self) -> int:
        return len(self.content) // ENTRY_BYTES

    def __iter__(self) -> Iterator[Aborted]:
        for fields in _ENTRY.iter_unpack(self.content):
            yield Aborted._make(fields[1:])

    def append(self, aborted: Aborted) -> None:
        assert not self.content or aborted.last_offset > self._last_offset(len(self) - 1), (aborted, self)
        self.content += _ENTRY.pack(VERSION, *aborted)

    def truncate(self, offset: int) -> None:
        """Keep whole entries of transactions whose markers are below `offset`."""
        del self.content[len(self) * ENTRY_BYTES :]
        while self.content and self._last_offset(len(self) - 1) >= offset:
            del self.content[-ENTRY_BYTES:]

    def is_sane(self, base_offset: int) -> bool:
        """Whether this can be the index of a segment that begins at `base_offset`. Without entries there is no file."""
        if not self.content or len(self.content) % ENTRY_BYTES:
            return False
        before = base_offset - 1
        stable_before = 0
        for version, _, first, last, stable in _ENTRY.iter_unpack(self.content):
            if (
                version != VERSION
                or not 0 <= first <= last
                or last <= before
                or not stable_before <= stable <= last + 1
            ):
                return False
            before, stable_before = last, stable
        return True

    def collect(self, start: int, end: int, found: list[Aborted]) -> bool:
        """Add the transactions with records in [start, end); returns whether later segments cannot have more of
        them."""
        for aborted in self:
            if aborted.last_offset >= start and aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return True
        return False

    def _last_offset(self, number: int) -> int:
        fields: tuple[int, ...] = _ENTRY.unpack_from(self.content, number * ENTRY_BYTES)
        return fields[3]
