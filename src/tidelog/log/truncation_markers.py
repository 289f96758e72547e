"""Marks of cuts that are not durable yet.

A log that is cut goes on with other records, while the old ones may still be on the platter: a power loss can bring
them back. Where the cut is below the recovery point, the checkpoint says, until it is written again, that what stood
there is durable. A broker that is killed in between, and loses its power later, would believe bytes that never reached
the disk, or, having gone on in the file that was cut, find the old tail behind its new records.

So a cut leaves a mark in the log's folder, an empty file named after the offset: it cannot be torn, and no file that is
made later, as for what is appended next, outlives a crash without it. Recovery believes nothing above a mark, and
appends nothing to a file that was cut. A mark goes when the cut is durable, and all that any checkpoint may call so.
"""

from collections.abc import Iterable
from contextlib import suppress

from tidelog.errors import DiskFull
from tidelog.log import names
from tidelog.ports import Disk

ABOVE_ALL = 2**63 - 1


class TruncationMarkers:
    """Those of one log. `trusted_end`: what a checkpoint may say of it, and beyond every cut, where only a flush that
    came after it can get to."""

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
        """Whether the file that begins at `offset` may have been cut."""
        return any(cut > offset for cut in self._offsets)

    def put(self, offset: int, recovery_point: int) -> None:
        """The log is cut at `offset`. Without room for a mark, there is none for records either."""
        self._trusted_end = max(self._trusted_end, recovery_point, offset + 1)
        if offset not in self._offsets:
            with suppress(DiskFull):
                self._disk.open(self._path(offset), create=True).close()
                self._offsets.add(offset)

    def lift(self, recovery_point: int) -> None:
        """All below this is durable."""
        if self._offsets and recovery_point >= self._trusted_end:
            for offset in sorted(self._offsets):
                self._disk.remove(self._path(offset))
            self._offsets.clear()

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{names.name(offset, names.CUT)}"


def marker_offsets(found: Iterable[str]) -> list[int]:
    """The offsets that the marks among these files of a log's folder name."""
    return [
        offset for name in found if names.is_kind(name, names.CUT) and (offset := names.offset_of(name)) is not None
    ]
