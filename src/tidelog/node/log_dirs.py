"""The log directories ("folders") of a broker when it starts: the clean-shutdown file, checkpoints, and replicas.

A clean shutdown is proven by a file that is written last, and removed when the next process reads it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, count
from typing import NamedTuple

from tidelog.effects import SyncFolders
from tidelog.errors import CorruptLog, DiskFailed, DiskFull
from tidelog.log import checkpoints, names
from tidelog.model import TopicPartition
from tidelog.ports import Disk

DELETING = "-delete"
STRAY = "-stray"
FUTURE = "-future"
"""Ends the name of a copy that is to be the replica in its folder: `topic-0.<mark>-future`."""


class Checkpoints(NamedTuple):
    """The contents of the checkpoints of one folder."""

    high_watermarks: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    cleaned: Mapping[TopicPartition, int]


NO_CHECKPOINTS = Checkpoints({}, {}, {}, {})
_WITHOUT = {
    checkpoints.REPLICATION_OFFSETS: "every high watermark is determined again",
    checkpoints.RECOVERY_POINTS: "every log is verified from its start, unless the broker stopped cleanly",
    checkpoints.START_OFFSETS: "records that were deleted, and not yet removed, can be read again",
    checkpoints.CLEANER_OFFSETS: "compaction begins again at the start of every log",
}
"""The offset checkpoints, and what follows if one cannot be read. It counts as empty then: that loses nothing."""


def read_checkpoints(disk: Disk, folder: str, unreadable: Callable[[str, str], None]) -> Checkpoints:
    """`unreadable` is called with the problem of a damaged file, and with what is done instead."""
    return Checkpoints(*(_offsets(disk, folder, name, unreadable) for name in _WITHOUT))


def _offsets(
    disk: Disk, folder: str, name: str, unreadable: Callable[[str, str], None]
) -> Mapping[TopicPartition, int]:
    path = f"{folder}/{name}"
    try:
        return checkpoints.read_offsets(disk.read(path), path) if disk.exists(path) else {}
    except CorruptLog as error:
        unreadable(str(error), _WITHOUT[name])
        return {}


def sync_folders(disk: Disk, effect: SyncFolders) -> None:
    """Carry the effect out. DiskFailed if a folder is missing, too."""
    for path in effect.paths:
        try:
            disk.sync_folder(path)
        except FileNotFoundError as error:
            raise DiskFailed(path, "the log folder is gone") from error
    by_folder: dict[str, set[str]] = {}
    for path in effect.reused:
        folder, _, name = path.rpartition("/")
        by_folder.setdefault(folder, set()).add(name)
    for folder, replicas in by_folder.items():
        for file in _WITHOUT:
            _forget_offsets(disk, f"{folder}/{file}", replicas)


def _forget_offsets(disk: Disk, path: str, replicas: Collection[str]) -> None:
    """Take the offsets of these replicas out of a checkpoint, durably. If there is no room for that, the file goes:
    without it nothing is lost."""
    content = disk.read(path) if disk.exists(path) else b""
    wanted = {each.encode() for each in replicas}
    if not any(b"-".join(line.split()[:2]) in wanted for line in content.splitlines()):
        return  # parsing takes ten times as long
    try:
        offsets = checkpoints.read_offsets(content, path)
    except CorruptLog:
        return  # it counts as empty already
    kept = [(name, offset) for name, offset in offsets.items() if str(name) not in replicas]
    if len(kept) < len(offsets):
        try:
            disk.replace(path, checkpoints.format_offsets(kept))
        except DiskFull:
            disk.remove(path)
            disk.sync_folder(path.rpartition("/")[0])


def take_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """The broker epoch of the previous process if it stopped cleanly, otherwise None. The file is removed at once: if
    this process is killed, the next one must not take it for proof."""
    path = f"{folder}/{checkpoints.CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    epoch = checkpoints.read_clean_shutdown(disk.read(path))
    disk.remove(path)
    disk.sync_folder(folder)
    return epoch


def partitions(
    disk: Disk, folder: str, unidentified: Callable[[TopicPartition, str], None] = lambda *_: None
) -> Iterator[tuple[TopicPartition, str, bytes]]:
    """(partition, its folder, topic id) for all that this folder holds, without what was deleted. `unidentified` is
    called with each replica that has no readable topic id, and with the reason."""
    for each in disk.list(folder):
        path = f"{folder}/{each}"
        topic, dash, number = each.rpartition("-")
        metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
        if not dash or not number.isdecimal() or topic == names.METADATA_TOPIC or not disk.exists(metadata):
            continue
        name = TopicPartition(topic, int(number))
        try:
            topic_id = checkpoints.read_partition_metadata(disk.read(metadata), metadata)
        except CorruptLog as error:
            unidentified(name, str(error))
        else:
            yield name, path, topic_id


def deleted_name(disk: Disk, folder: str, name: TopicPartition, topic_id: bytes) -> str:
    """A free name for the folder of a deleted replica. A former one of the same topic may still be there: its files go
    later, or stay while another log directory is missing."""
    stem = f"{name}.{topic_id.hex()}"
    numbered = (f"{stem}.{number}{DELETING}" for number in count(1))
    return next(each for each in chain([f"{stem}{DELETING}"], numbered) if not disk.exists(f"{folder}/{each}"))


def remove_deleted(disk: Disk, folders: Sequence[str]) -> None:
    """A folder that refuses keeps it."""
    for folder in folders:
        with suppress(DiskFailed):
            for name in [name for name in disk.list(folder) if name.endswith(DELETING)]:
                disk.remove(f"{folder}/{name}")


def finish_moves(disk: Disk, folder: str, folders: Sequence[str]) -> None:
    """A copy in `folder` whose mark is also that of a deleted folder in one of `folders` has replaced the replica,
    except for its name. A folder that is not a replica must not block that name."""
    for name, path, mark in list(futures(disk, folder)):
        finished = any(disk.exists(f"{other}/{name}.{mark}{DELETING}") for other in folders)
        if finished and name not in {held for held, _, _ in partitions(disk, folder)}:
            own = f"{folder}/{name}"
            set_aside(disk, own)
            disk.rename(path, own)
            disk.sync_folder(folder)


def futures(disk: Disk, folder: str) -> Iterator[tuple[TopicPartition, str, str]]:
    """(partition, the copy's folder, its mark) for all copies that this folder holds."""
    for name in disk.list(folder):
        stem, dot, mark = name.removesuffix(FUTURE).rpartition(".")
        topic, dash, number = stem.rpartition("-")
        if name.endswith(FUTURE) and dot and dash and number.isdecimal():
            yield TopicPartition(topic, int(number)), f"{folder}/{name}", mark


def set_aside(disk: Disk, path: str) -> bool:
    """A folder at the path of a new replica belongs to no known topic: its records must not become the new replica's.
    Returns whether there was one."""
    if not disk.exists(path):
        return False
    aside = path + STRAY
    disk.remove(aside)
    disk.rename(path, aside)
    return True


def remove_replica(disk: Disk, folder: str) -> None:
    """Remove everything in a closed replica's folder at once. The metadata goes first: without it the folder is not a
    replica, wherever a crash leaves the rest."""
    files = sorted(disk.list(folder), key=lambda file: file != checkpoints.PARTITION_METADATA)
    for path in [*(f"{folder}/{file}" for file in files), folder]:
        disk.remove(path)
