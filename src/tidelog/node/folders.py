"""The log folders of a broker: their checkpoints, and what is found in them at start."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from tidelog.errors import CorruptLog
from tidelog.log import checkpoints
from tidelog.model import TopicPartition
from tidelog.ports import Disk

DELETING = "-delete"
STRAY = "-stray"


class Marks(NamedTuple):
    """What the checkpoints of one folder said."""

    high_watermarks: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    cleaned: Mapping[TopicPartition, int]


def read_marks(disk: Disk, folder: str) -> Marks:
    return Marks(
        _offsets(disk, folder, checkpoints.REPLICATION_OFFSETS),
        _offsets(disk, folder, checkpoints.RECOVERY_POINTS),
        _offsets(disk, folder, checkpoints.START_OFFSETS),
        _offsets(disk, folder, checkpoints.CLEANER_OFFSETS),
    )


def _offsets(disk: Disk, folder: str, name: str) -> Mapping[TopicPartition, int]:
    path = f"{folder}/{name}"
    return checkpoints.read_offsets(disk.read(path), path) if disk.exists(path) else {}


def take_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """The broker epoch of the life that stopped cleanly, None where it did not. The file goes at once: should this
    life be killed, it must not vouch for it."""
    path = f"{folder}/{checkpoints.CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    epoch = checkpoints.read_clean_shutdown(disk.read(path))
    disk.remove(path)
    disk.sync_folder(folder)
    return epoch


def partitions(disk: Disk, folder: str) -> Iterator[tuple[TopicPartition, str, bytes]]:
    """(partition, its folder, topic id) for all that this folder holds; leftovers of deletions are removed.

    A folder without a readable topic id lost it with the power, before anything in it was durable: it is passed over.
    """
    for name in disk.list(folder):
        path = f"{folder}/{name}"
        if name.endswith(DELETING):
            disk.remove(path)
            continue
        topic, dash, number = name.rpartition("-")
        metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
        if dash and number.isdecimal() and disk.exists(metadata):
            with suppress(CorruptLog):
                topic_id = checkpoints.read_partition_metadata(disk.read(metadata), metadata)
                yield TopicPartition(topic, int(number)), path, topic_id


def set_aside(disk: Disk, path: str) -> None:
    """What stands where a new replica goes is of no known topic: its records must not pass for the new one's."""
    if disk.exists(path):
        aside = path + STRAY
        disk.remove(aside)
        disk.rename(path, aside)
