"""Searches a log for acknowledged records, by offset and by a checksum of the value."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from tidelog.errors import ApiError
from tidelog.wire.records import header, records

ABSENT, OTHER = "nothing", "another record"


class Acknowledged(NamedTuple):
    """`value` is the CRC-32 of the value that was sent."""

    offset: int
    value: int


def between(wanted: Sequence[Acknowledged], start: int, end: int) -> tuple[Acknowledged, ...]:
    """The acknowledged records at offsets in [start, end)."""
    low, high = (bisect_left(wanted, bound, key=lambda each: each.offset) for bound in (start, end))
    return tuple(wanted[low:high])


class Search:
    """Pass `on_batch` to a `Scanner`. At the end `missing` has the records that were not found, or that another record
    replaces."""

    def __init__(self, wanted: Sequence[Acknowledged]) -> None:
        self._wanted: dict[int, list[int]] = {}
        for offset, value in wanted:
            self._wanted.setdefault(offset, []).append(value)
        self._offsets = sorted(self._wanted)
        self.missing = dict.fromkeys(wanted, ABSENT)

    def on_batch(self, batch: memoryview, base: int, end: int) -> None:
        index = bisect_left(self._offsets, base)
        if index == len(self._offsets) or self._offsets[index] >= end:
            return
        try:
            for record in records(batch, header(batch)):
                self._met(record.offset, self._wanted.get(record.offset, ()), record.value or b"")
        except ApiError:
            return  # the checksum matches but the records cannot be decoded: they count as missing

    def _met(self, offset: int, wanted: Sequence[int], value: bytes) -> None:
        for each in wanted:
            if crc32(value) == each:
                self.missing.pop(Acknowledged(offset, each), None)
            elif (offset, each) in self.missing:
                self.missing[Acknowledged(offset, each)] = OTHER
