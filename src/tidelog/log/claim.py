"""Whose folder it is: `partition.metadata` names the topic by its id, before the first record is there."""

from tidelog.errors import CorruptLog
from tidelog.log.checkpoints import PARTITION_METADATA, format_partition_metadata, read_partition_metadata
from tidelog.model import NO_ID
from tidelog.ports import Disk


def claim(disk: Disk, folder: str, topic_id: bytes, *, is_new: bool) -> bytes:
    """The topic id of the folder, written where it is missing, or torn while nothing of the log was durable yet
    (`is_new`). CorruptLog where the folder is of another topic."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        found = read_partition_metadata(disk.read(path), path)
    except FileNotFoundError:
        found = NO_ID
    except CorruptLog:
        if not is_new:
            raise
        found = NO_ID
    if found == NO_ID and topic_id != NO_ID:
        disk.replace(path, format_partition_metadata(topic_id), durable=False)
        return topic_id
    if topic_id not in (NO_ID, found):
        raise CorruptLog(f"{path}: the folder is of another topic of this name")
    return found
