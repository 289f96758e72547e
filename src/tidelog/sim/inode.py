"""Files and directory entries of a simulated disk: what the page cache holds of them, and what is durable."""

from dataclasses import dataclass, field
from random import Random

from tidelog.ports import Buffer

BLOCKS = (512, 4096)


@dataclass(slots=True, eq=False)
class Inode:
    """One file's content.

    `dirty`: the byte ranges written since the last sync; `cut`: the smallest size since then. `turned`: the original
    byte at each position where a bit was flipped (`SimDisk.flip`).
    """

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    dirty: list[tuple[int, int]] = field(default_factory=list)
    cut: int | None = None
    turned: dict[int, int] = field(default_factory=dict)

    def write(self, position: int, data: Buffer) -> None:
        if position > len(self.cached):
            self.cached.extend(bytes(position - len(self.cached)))
        self.cached[position : position + len(data)] = data
        self.dirty.append((position, position + len(data)))

    def truncate(self, size: int) -> None:
        if size < len(self.cached):
            self.turned = {position: byte for position, byte in self.turned.items() if position < size}
            del self.cached[size:]
            self.cut = size if self.cut is None else min(self.cut, size)
        else:
            self.dirty.append((len(self.cached), size))
            self.cached.extend(bytes(size - len(self.cached)))

    def sync(self) -> None:
        self.apply([(start, min(end, len(self.cached))) for start, end in self.dirty], cut=True)
        self.forget_dirty()

    def apply(self, ranges: list[tuple[int, int]], *, cut: bool) -> None:
        """Write these ranges of the page cache to the disk; the old tail is removed first if the file was cut."""
        if cut and self.cut is not None:
            del self.durable[self.cut :]
        for start, end in ranges:
            if end > len(self.durable):
                self.durable.extend(bytes(end - len(self.durable)))
            self.durable[start:end] = self.cached[start:end]

    def forget_dirty(self) -> None:
        self.dirty = []
        self.cut = None

    def lose_power(self, random: Random) -> None:
        """Keep what was synced and, of the rest, the blocks that the seed chose."""
        if self.dirty or self.cut is not None:
            block = random.choice(BLOCKS)
            chance = random.choice((0.0, 0.5, 1.0))
            kept = [piece for piece in self.dirty_blocks(block) if random.random() < chance]
            self.apply(kept, cut=random.random() < 0.5)
        self.cached = bytearray(self.durable)
        self.forget_dirty()

    @property
    def rotten(self) -> list[int]:
        """Positions of flipped bits that are still there: nothing was written over them, or that write is lost."""
        cached = self.cached
        return [at for at, byte in self.turned.items() if at < len(cached) and cached[at] == byte ^ 1]

    def whole(self) -> bytearray:
        """Return the page cache as if no bit were flipped: checks compare logs with it until the rot is found."""
        if not (rotten := self.rotten if self.turned else []):
            return self.cached
        content = bytearray(self.cached)
        for position in rotten:
            content[position] = self.turned[position]
        return content

    def dirty_blocks(self, block: int) -> list[tuple[int, int]]:
        size = len(self.cached)
        numbers = sorted({n for start, end in self.dirty for n in range(start // block, (end + block - 1) // block)})
        return [(n * block, min((n + 1) * block, size)) for n in numbers if n * block < size]


DirectoryEntry = Inode | None
"""What a name in a directory stands for: a file, or None for a directory."""

Names = list[str]

DirectoryChange = tuple[str, str, DirectoryEntry, tuple[str, ...]]
"""One change of directories, and which: ("link", path, entry, …), ("unlink", path, None, …), ("rename:" + source,
target, None, …).
"""


DirectoryChanges = list[DirectoryChange]


def parent_of(path: str) -> str:
    return path.rsplit("/", 1)[0]


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def apply_change(names: dict[str, DirectoryEntry], change: DirectoryChange) -> None:
    kind, path, entry, _ = change
    if kind == "link":
        names[path] = entry
    elif kind == "unlink":
        for name in paths_within(names, path):
            del names[name]
    else:
        source = kind.removeprefix("rename:")
        for name in paths_within(names, source):
            names[path + name[len(source) :]] = names.pop(name)


def paths_within(names: dict[str, DirectoryEntry], path: str) -> list[str]:
    """Return the path itself and everything below it."""
    if names.get(path) is not None:
        return [path]
    return [name for name in names if is_below(name, path)]


def follow_rename(earlier: DirectoryChange, change: DirectoryChange) -> DirectoryChange:
    """Return an earlier change in a directory after the directory was renamed.

    The rename became durable, the change did not yet: it applies to that directory, whatever has its old name now.
    """
    source, target = change[0].removeprefix("rename:"), change[1]
    if source == change[0]:
        return earlier

    def found(path: str) -> str:
        return target + path[len(source) :] if is_below(path, source) else path

    kind, path, entry, folders = earlier
    if not path.startswith(source + "/"):
        return earlier
    if kind.startswith("rename:"):
        kind = f"rename:{found(kind.removeprefix('rename:'))}"
    return kind, found(path), entry, tuple(map(found, folders))
