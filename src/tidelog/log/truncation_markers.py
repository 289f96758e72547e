"""Markers of truncations that are not durable yet.

A truncated log continues with other records while the old ones may still be on the disk: a power loss can restore them.
If the truncation is below the recovery point, the checkpoint still claims, until it is written again, that those
offsets are durable. A broker that is killed in between, and loses its power later, would trust bytes that never reached
the disk, or, having appended to the truncated file, find the old tail behind its new records.

A truncation therefore creates a marker in the log's folder, an empty file named after the offset: it cannot be torn,
and no file that is created later, such as that of the next append, survives a crash without it. Recovery trusts nothing
above a marker, and appends nothing to a truncated file. A marker is removed when the truncation is durable, and
everything that a checkpoint may claim to be.
"""

from collections.abc import Iterable
from contextlib import suppress

from tidelog.errors import DiskFull
from tidelog.log import names
from tidelog.ports import Disk

ABOVE_ALL = 2**63 - 1


class TruncationMarkers:
    """One log's markers. `trusted_end` is the highest offset that a checkpoint may claim to be durable, and above every
    truncation, so that only a later flush reaches it."""

    __slots__ = ("_disk", "_folder", "_offsets", "_trusted_end")

    def __init__(self, disk: Disk, folder: str, offsets: Iterable[int] = (), trusted_end: int = 0) -> None:
        self._disk = disk
        self._folder = folder
        self._offsets = set(offsets)
        self._trusted_end = trusted_end

    def __repr__(self) -> str:
        return f"<TruncationMarkers {sorted(self._offsets)}>"

    @property
    def lowest(self) -> int:
        return min(self._offsets, default=ABOVE_ALL)

    def is_above(self, offset: int) -> bool:
        """Whether the file that begins at `offset` may have been truncated."""
        return any(cut > offset for cut in self._offsets)

    def put(self, offset: int, recovery_point: int) -> None:
        """The log is truncated at `offset`. If there is no space for a marker, there is none for records either."""
        self._trusted_end = max(self._trusted_end, recovery_point, offset + 1)
        if offset not in self._offsets:
            with suppress(DiskFull):
                self._disk.open(self._path(offset), create=True).close()
                self._offsets.add(offset)

    def lift(self, recovery_point: int) -> None:
        """Everything below the recovery point is durable."""
        if self._offsets and recovery_point >= self._trusted_end:
            for offset in sorted(self._offsets):
                self._disk.remove(self._path(offset))
            self._offsets.clear()

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{names.name(offset, names.CUT)}"


def marker_offsets(found: Iterable[str]) -> list[int]:
    """The offsets of the markers among these files of a log's folder."""
    return [
        offset for name in found if names.is_kind(name, names.CUT) and (offset := names.offset_of(name)) is not None
    ]
