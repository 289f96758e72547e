"""A replacement of segments by compaction that a crash interrupted: undone or finished at the next start."""

from collections.abc import Sequence

from tidelog.log import names
from tidelog.log.scan import SCAN_BYTES, walk
from tidelog.ports import Disk


def finish_replacement(disk: Disk, folder: str) -> list[str]:
    """Undo a compaction whose `.swap` files were not complete, finish one whose were; returns the remaining names."""
    found = disk.list(folder)
    offsets = {name: names.offset_of(name) for name in found}
    cleaned = [name for name in found if name.endswith(names.CLEANED)]
    aborted_from = min((offset for name in cleaned if (offset := offsets[name]) is not None), default=None)

    def is_gone(name: str) -> bool:
        if name.endswith((names.DELETED, names.CLEANED, names.TEMPORARY)):
            return True
        offset = offsets[name]
        return name.endswith(names.SWAP) and aborted_from is not None and (offset is None or offset >= aborted_from)

    gone = [name for name in found if is_gone(name)]
    remove_all(disk, [f"{folder}/{name}" for name in gone])
    found = [name for name in found if name not in gone]
    if any(name.endswith(names.SWAP) for name in found):
        _swap_in(disk, folder, found)
        found = disk.list(folder)
    return found


def _swap_in(disk: Disk, folder: str, found: list[str]) -> None:
    """Remove the files that the swapped segments replace, then rename the new ones."""
    swapped = [name for name in found if name.endswith(names.SWAP)]
    logs = [name for name in swapped if names.is_kind(name.removesuffix(names.SWAP), names.LOG)]
    replaced = [_range_of(disk, folder, name) for name in logs]
    if replaced:
        start, end = min(low for low, _ in replaced), max(high for _, high in replaced)
        for name in found:
            offset = names.offset_of(name)
            is_segment = any(names.is_kind(name, kind) for kind in names.SEGMENT_FILES)
            if is_segment and offset is not None and start <= offset < end:
                disk.remove(f"{folder}/{name}")
    for name in swapped:
        disk.rename(f"{folder}/{name}", f"{folder}/{name.removesuffix(names.SWAP)}")
    disk.sync_folder(folder)


def _range_of(disk: Disk, folder: str, name: str) -> tuple[int, int]:
    """[base, one past the last offset) of a log file."""
    base = names.offset_of(name)
    assert base is not None, name
    file = disk.open(f"{folder}/{name}")
    end = base
    for batch in walk(file, 0, file.size(), step=SCAN_BYTES, torn=True):
        end = batch.next_offset
    file.close()
    return base, end


def remove_all(disk: Disk, paths: Sequence[str]) -> None:
    for path in paths:
        disk.remove(path)
