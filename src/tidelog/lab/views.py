"""What a replica holds, read from the bytes on its broker's disk, and the state of the running node."""

from collections.abc import Callable, Sequence

from tidelog.errors import ApiError
from tidelog.lab.playback import NO_EPOCH, RecordView, ReplicaView
from tidelog.lab.stage import Stage
from tidelog.log import checkpoints
from tidelog.model import TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.sim.disk import SimDisk
from tidelog.sim.inode import Inode
from tidelog.sim.world import ROOT
from tidelog.wire import codec, records
from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue

DOWN = "down"
COMMITTED_OFFSET = b"\x00\x01"
"""The first bytes of the key of a committed offset, in the groups' topic."""


def replicas(stage: Stage, name: TopicPartition) -> list[ReplicaView]:
    """Return the view of every broker of the story that holds, or held, a replica."""
    return [
        replica(stage, broker, name)
        for broker in stage.brokers
        if folder(name) in stage.hosts[broker].disk.names or stage.partition(broker, name) is not None
    ]


def folder(name: TopicPartition) -> str:
    return f"{ROOT}/{name}"


def replica(stage: Stage, broker: str, name: TopicPartition) -> ReplicaView:
    disk = stage.hosts[broker].disk
    found = records_on(disk, name)
    partition = stage.partition(broker, name)
    if partition is not None:
        return _running(stage, broker, partition, found)
    epochs = _epochs_on(disk, name)
    end = found[-1].offset + 1 if found else 0
    alive = stage.hosts[broker].up
    return ReplicaView(
        broker=broker,
        alive=alive,
        role="idle" if alive else DOWN,
        leader_epoch=epochs[-1][0] if epochs else NO_EPOCH,
        log_start=found[0].offset if found else 0,
        leo=end,
        hw=min(_high_watermark_on(disk, name), end),
        records=found,
        epochs=epochs,
    )


def _running(stage: Stage, broker: str, partition: Partition, found: list[RecordView]) -> ReplicaView:
    role = partition.role
    view = ReplicaView(
        broker=broker,
        alive=True,
        role="idle" if role is None else type(role).__name__.lower(),
        leader_epoch=partition.epoch,
        log_start=partition.log.log_start_offset,
        leo=partition.log.log_end_offset,
        hw=partition.high_watermark,
        records=found,
        epochs=[(entry.epoch, entry.start_offset) for entry in partition.log.epochs],
    )
    if isinstance(role, Leader):
        view.isr = [stage.names[member] for member in role.isr]
        view.remote = {stage.names[other]: progress.log_end_offset for other, progress in sorted(role.remote.items())}
    return view


def records_on(disk: SimDisk, name: TopicPartition) -> list[RecordView]:
    return in_folder(disk, folder(name), label)


Label = Callable[[records.Record, records.BatchHeader], str]


def in_folder(disk: SimDisk, path_of_log: str, label_of: Label) -> list[RecordView]:
    """Return every record in the log's segments; `synced` if the disk holds the same bytes durably."""
    found: list[RecordView] = []
    for path in sorted(path for path in disk.names if path.startswith(path_of_log + "/") and path.endswith(".log")):
        inode = disk.names[path]
        if inode is not None:
            found.extend(_records_in(inode, label_of, named=disk.durable.get(path) is inode))
    return found


def _records_in(inode: Inode, label_of: Label, *, named: bool) -> Sequence[RecordView]:
    content, durable = bytes(inode.cached), bytes(inode.durable)
    found = []
    try:
        for batch in records.batches(content):
            piece = slice(batch.position, batch.end)
            synced = named and durable[piece] == content[piece]
            found += [
                RecordView(record.offset, batch.leader_epoch, label_of(record, batch), synced, batch.is_control)
                for record in records.records(content, batch)
            ]
    except ApiError:
        return found  # a torn batch ends the log
    return found


def label(record: records.Record, batch: records.BatchHeader) -> str:
    """Return the record's value; for a marker its kind, for a group's committed offset the partition and offset."""
    if batch.is_control:
        marker = records.read_marker(record)
        return "commit" if marker is not None and marker.committed else "abort"
    key, value = bytes(record.key or b""), bytes(record.value or b"")
    if key[:2] == COMMITTED_OFFSET and len(value) > 2:
        whose = codec.decode(OffsetCommitKey, 0, key[2:])
        version = int.from_bytes(value[:2], "big")
        return f"{whose.topic}-{whose.partition}:{codec.decode(OffsetCommitValue, version, value[2:]).offset}"
    return value.decode(errors="replace")


def _epochs_on(disk: SimDisk, name: TopicPartition) -> list[tuple[int, int]]:
    inode = disk.names.get(f"{folder(name)}/{checkpoints.LEADER_EPOCHS}")
    return checkpoints.read_epochs(bytes(inode.cached), "") if inode is not None else []


def _high_watermark_on(disk: SimDisk, name: TopicPartition) -> int:
    inode = disk.names.get(f"{ROOT}/{checkpoints.REPLICATION_OFFSETS}")
    return checkpoints.read_offsets(bytes(inode.cached), "").get(name, 0) if inode is not None else 0
