"""Replacements in what is written, synced, truncated and recovered."""

# ruff: noqa: ARG001  (a replacement has the parameters of what it replaces, and its place inside)

from collections.abc import Sequence

from tidelog.log import checkpoints, names
from tidelog.log.contents import Contents
from tidelog.log.epochs import EpochCache
from tidelog.log.segment import Segment
from tidelog.ports import Disk, File
from tidelog.sim.disk import SimDisk

unsynced = Contents.unsynced


def keep_producers(log: Contents, end: int) -> None:
    """For `Contents._truncate_producers`: they remember batches that are gone."""
    log.producers.end_offset = end


def keep_epochs(epochs: EpochCache, end_offset: int) -> bool:
    """For `EpochCache.truncate_from_end`: it has epochs of records that are gone."""
    return False


def recover_from_here(log: Contents) -> list[File]:
    """For `Contents.unsynced`: the recovery point moves when the files are handed over, not when they are synced."""
    files = unsynced(log)
    log.durability.recovery_point = log.log_end_offset
    return files


def read_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """For `take_clean_shutdown`: the file stays, and vouches for the next life, too."""
    path = f"{folder}/{checkpoints.CLEAN_SHUTDOWN}"
    return checkpoints.read_clean_shutdown(disk.read(path)) if disk.exists(path) else None


def offer_ascending(rewritten: Sequence[Segment]) -> None:
    """For compaction's `offer`: the first segment gets its name first."""
    for segment in rewritten:
        segment.rename(names.SWAP)


def overwrite(disk: SimDisk, path: str, content: bytes, *, durable: bool = True) -> None:
    """For `SimDisk.replace`: the file is written where it is."""
    file = disk.open(path, create=not disk.exists(path))
    try:
        file.truncate(0)
        file.write(0, content)
        if durable:
            file.sync()
    finally:
        file.close()
