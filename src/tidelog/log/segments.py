"""The segments of one log, oldest first; the last one is active.

Base offsets ascend, and a segment contains no offset at or above the base of the next one. Files of removed segments
are renamed first and deleted later, newest first, so that a crash in between leaves a prefix of the log.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.errors import DiskFailed
from tidelog.log import names
from tidelog.log.segment import Segment, Warm
from tidelog.ports import Disk


class Refetched(NamedTuple):
    """`records` of another replica stand for `length` damaged bytes, unless records were removed from the log since
    (`removals`)."""

    removals: int
    length: int
    records: bytes


class Segments:
    """Never empty once the log is open."""

    __slots__ = ("_bases", "_items", "active", "disk", "faulty", "folder", "index_interval", "refetched", "warm")

    def __init__(self, disk: Disk, folder: str, index_interval: int, warm: Warm) -> None:
        self.disk = disk
        self.folder = folder
        self.index_interval = index_interval
        self.warm = warm
        self.faulty: set[int] = set()
        """Base offsets of segments with damaged batches."""
        self.refetched: dict[tuple[Segment, int], Refetched] = {}
        """What the next compaction writes instead of damaged batches, by segment and position."""
        self._items: list[Segment] = []
        self._bases: list[int] = []
        self.active: Segment

    def __repr__(self) -> str:
        return f"<Segments {self.folder} {self._bases}>"

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __getitem__(self, number: int) -> Segment:
        return self._items[number]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._items)

    @property
    def base_offset(self) -> int:
        return self._bases[0]

    def floor(self, offset: int) -> int:
        """The number of the segment that contains `offset`; 0 if it is below all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_of(self, number: int, log_end_offset: int) -> int:
        """One past the last offset that the segment may contain."""
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def describe(self, base_offset: int, size: int, created: int) -> Segment:
        return Segment(
            self.disk,
            self.folder,
            base_offset,
            size=size,
            created=created,
            index_interval=self.index_interval,
            warm=self.warm,
        )

    def add(self, segment: Segment) -> None:
        """Add the newest segment; it becomes active when `activate` is called."""
        assert not self._bases or segment.base_offset > self._bases[-1], segment
        self._items.append(segment)
        self._bases.append(segment.base_offset)

    def activate(self) -> None:
        self.active = self._items[-1]
        self.active.activate()

    def create(self, base_offset: int, now_wall: int, *, is_new: bool = False) -> None:
        """A new, empty active segment. If the disk refuses, its file is removed if possible. Unless the folder is new,
        an interrupted removal may have left files of its name."""
        segment = self.describe(base_offset, 0, now_wall)
        path = segment.path(names.LOG)
        if not is_new:
            segment.remove_files()
        try:
            self.disk.open(path, create=True).close()
        except DiskFailed:
            self.disk.remove(path)
            raise
        self.add(segment)
        self.activate()

    def set_index_interval(self, index_interval: int) -> None:
        self.index_interval = index_interval
        for segment in self._items:
            segment.index_interval = index_interval

    def retire_first(self, count: int) -> list[str]:
        """Remove the oldest segments from the log; returns their renamed files."""
        gone, self._items, self._bases = self._items[:count], self._items[count:], self._bases[count:]
        return [path for segment in gone for path in segment.retire()]

    def replace(self, old: Sequence[Segment], new: Sequence[Segment]) -> list[str]:
        """Replace the adjacent segments `old` with `new`; returns the renamed files of the former."""
        self.faulty -= {segment.base_offset for segment in old}
        self.refetched = {key: found for key, found in self.refetched.items() if key[0] not in old}
        number = self._items.index(old[0])
        self._items[number : number + len(old)] = new
        self._bases = [segment.base_offset for segment in self._items]
        return [path for segment in old for path in segment.retire()]

    def take_names(self) -> bool:
        """Rename segments that replaced others to their final names; returns whether there were any."""
        nameless = [segment for segment in self._items if segment.suffix]
        for segment in nameless:
            segment.rename("")
        return bool(nameless)

    def retire_from(self, number: int) -> list[str]:
        """Remove the segments from this one on, newest first; returns their renamed files."""
        renamed = []
        while len(self._items) > number:
            renamed += self._items[-1].retire()
            del self._items[-1], self._bases[-1]
        return renamed

    def cool(self) -> None:
        for segment in self._items:
            segment.tail = None
            segment.cool()
