"""The functions that mutants put in place of those of the core, each with one decision left out or wrong."""

# ruff: noqa: ARG001, SLF001  (a replacement has the parameters of what it replaces, and its place inside)

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelog.api.context import Push
from tidelog.controller.leaders import Life, Lives
from tidelog.coordinator.transaction.transaction import Transaction
from tidelog.errors import ErrorCode
from tidelog.log import checkpoints, names
from tidelog.log.epochs import EpochCache
from tidelog.log.log import Log
from tidelog.log.producers import Producer, Producers
from tidelog.log.segment import Segment
from tidelog.model import Time
from tidelog.node.broker_state import BrokerState
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Assignment, Partition
from tidelog.partition.progress import committed_offset
from tidelog.ports import Disk, File
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.cluster import alter_partition

lead = Partition._lead


def join_at_high_watermark(leader: Leader, replica: int, high_watermark: int, eligible: Collection[int]) -> bool:
    """For `Leader.may_join`: ignore the first offset of the leader's own epoch."""
    at_high_watermark = leader.remote[replica].log_end_offset >= high_watermark
    return leader.proposal is None and replica not in leader.isr and at_high_watermark and replica in eligible


def over_committed_isr(leader: Leader, current: int, end: int, now: int, lag_ms: int, eligible: Collection[int]) -> int:
    """For `Leader.high_watermark`: members that are only proposed do not count."""
    return committed_offset(current, end, (p.log_end_offset for r, p in leader.remote.items() if r in leader.isr))


def eligible_in_any_life(member: alter_partition.BrokerState, lives: Mapping[int, Life]) -> bool:
    """For the controller's `_eligible`: the joining broker may be another life of the one that caught up."""
    life = lives.get(member.broker_id)
    return life is not None and not life.leaving


def safe_when_appended(partition: Partition, acks: int) -> int:
    """For `safe_end`: acks=all is answered when the leader has the records."""
    return partition.log.log_end_offset


def never_held(partition: Partition, role: Leader) -> bool:
    """For `Partition.is_under_min_isr`: min.insync.replicas does not hold back the high watermark."""
    return False


def never_lost(broker: int, recorded: int, lives: Lives) -> bool:
    """For `leaders.has_lost`: an unclean end loses nothing."""
    return False


def own_least_only(partition: Partition, role: Leader) -> bool:
    """For `Partition.lacks_replicas`: the controller's eligible leader replicas do not matter."""
    return len(role.isr) < partition.min_in_sync


def readable_to_the_end(partition: Partition, *, committed_only: bool) -> int:
    """For `readable_end`: consumers read uncommitted records."""
    return partition.log.log_end_offset


def anybody_may_follow(partition: Partition, replica: int) -> None:
    """For `check_follower`."""
    partition.leading()


def lead_without_producers(partition: Partition, given: Assignment, now: Time) -> None:
    """For `Partition._lead`: forget the producer state."""
    lead(partition, given, now)
    log: Log = partition.log
    log.producers = Producers(end_offset=log.log_end_offset)


def all_is_newer(partition: Partition, given: Assignment) -> bool:
    """For `Partition.is_newer`."""
    return (given.leader_epoch, given.partition_epoch) != (partition.epoch, partition.partition_epoch)


def any_controller(broker: BrokerState, push: Push) -> ErrorCode:
    """For `BrokerState.check_controller`: accept fenced controllers and late requests."""
    return ErrorCode.NONE


unsynced = Log.unsynced


def keep_producers(log: Log, end: int) -> None:
    """For `Log._truncate_producers`: keep the state of removed batches."""
    log.producers.end_offset = end


def keep_epochs(epochs: EpochCache, end_offset: int) -> bool:
    """For `EpochCache.truncate_from_end`: keep the epochs of removed records."""
    return False


def recover_from_here(log: Log) -> list[File]:
    """For `Log.unsynced`: advance the recovery point when the files are handed over, not when they are synced."""
    files = unsynced(log)
    log.durability.recovery_point = log.log_end_offset
    return files


def read_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """For `take_clean_shutdown`: keep the file, so that it counts for the next life, too."""
    path = f"{folder}/{checkpoints.CLEAN_SHUTDOWN}"
    return checkpoints.read_clean_shutdown(disk.read(path)) if disk.exists(path) else None


def offer_ascending(rewritten: Sequence[Segment]) -> None:
    """For compaction's `offer`: rename the first segment first."""
    for segment in rewritten:
        segment.rename(names.SWAP)


def overwrite(disk: SimDisk, path: str, content: bytes, *, durable: bool = True) -> None:
    """For `SimDisk.replace`: write the file in place."""
    file = disk.open(path, create=not disk.exists(path))
    try:
        file.truncate(0)
        file.write(0, content)
        if durable:
            file.sync()
    finally:
        file.close()


ending = Transaction.ending


def stable_without_markers(producers: Producers, high_watermark: int) -> int:
    """For `Producers.last_stable_offset`: a marker counts before it is committed."""
    return min(high_watermark, next(iter(producers._open.values()), high_watermark))


def ending_in_its_epoch(transaction: Transaction, wall: int, version: int, **outcome: Any) -> Transaction:
    """For `Transaction.ending`: the producer keeps the epoch of the transaction that has ended."""
    ended = ending(transaction, wall, version, **outcome)
    return replace(ended, epoch=transaction.epoch, last_epoch=transaction.last_epoch)


def may_end_in_its_epoch(producer: Producer, epoch: int, *, raised: bool) -> bool:
    """For `_may_end`: accept markers whose epoch was not raised."""
    return epoch >= producer.epoch
