"""What is done in the folder of a replica before its log is trusted: about rot and leftovers."""

from contextlib import suppress
from itertools import pairwise

from tidelog.errors import CorruptLog
from tidelog.log import names
from tidelog.log.checkpoints import LEADER_EPOCHS, OLD, PARTITION_METADATA, read_partition_metadata
from tidelog.log.scan import whole_batches
from tidelog.ports import Disk
from tidelog.quorum.committed_file import CommittedState

_REPAIR = "remove this voter from the quorum, format its folder and add it again"


def clear_leftovers(disk: Disk, folder: str, saved: CommittedState) -> None:
    """Remove segments of the log before it started over, and the file of epochs. The log is never compacted, so its
    batches have all epochs; the file could have some of the log before."""
    for name in disk.list(folder):
        is_before = saved.starts_over or (names.offset_of(name) or 0) < saved.log_begins
        if names.is_kind(name, names.LOG) and is_before:
            disk.remove(f"{folder}/{name}")
    for name in (LEADER_EPOCHS, LEADER_EPOCHS + OLD):
        disk.remove(f"{folder}/{name}")
    path = f"{folder}/{PARTITION_METADATA}"
    with suppress(FileNotFoundError):
        try:
            read_partition_metadata(disk.read(path), path)
        except CorruptLog:  # torn: nothing syncs it before the first records, and a snapshot may come before them
            disk.remove(path)


def check_for_rot(disk: Disk, folder: str, saved: CommittedState, snapshot_end: int) -> None:
    """Raises CorruptLog unless all batches that were committed and synced here are whole. The log begins at most at the
    end of its newest snapshot: what is missing before it is not needed.

    A batch's checksum does not cover its epoch. But each epoch begins with a control batch, in which its leader names
    itself: any other batch has the epoch of the one before."""
    found = disk.list(folder)
    bases = sorted(names.offset_of(name) or 0 for name in found if names.is_kind(name, names.LOG))
    expected = bases[0] if bases else saved.log_begins
    committed, epoch = saved.high_watermark, None
    if max(expected, saved.log_begins) > snapshot_end:
        begins = max(expected, saved.log_begins)
        raise CorruptLog(f"{folder}: the log begins at offset {begins} without a snapshot before it; {_REPAIR}")
    for base, following in pairwise([*bases, 2**63 - 1]):
        if base != expected or expected >= committed:
            break
        file = disk.open(f"{folder}/{names.name(base, names.LOG)}")
        for batch in whole_batches(file, file.size()):
            if batch.base_offset != expected or expected >= following:
                break
            if epoch not in (None, batch.leader_epoch) and not (batch.is_control and batch.leader_epoch > epoch):
                break
            epoch = batch.leader_epoch
            expected = batch.next_offset
        file.close()
    if expected < committed:
        raise CorruptLog(
            f"{folder}: offset {expected} is damaged, although everything below {committed} was committed; {_REPAIR}"
        )
