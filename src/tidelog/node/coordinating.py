"""What a broker does for its coordinators: whoever leads a partition of an internal topic coordinates what it holds.

A coordinator replays the partition's log before it serves, its records are appended as leader, and its answers wait
for the high watermark.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tidelog.coordinator.coordinator import Coordinator
from tidelog.effects import Append, Effect, Event
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.wire.records import batches

LOAD_BYTES = 1 << 20


class Coordinating:
    """`coordinators` by their topic."""

    def __init__(
        self, coordinators: Mapping[str, Coordinator[Any]], replicas: HeldReplicas, effects: list[Effect]
    ) -> None:
        self._coordinators = coordinators
        self._replicas = replicas
        self._effects = effects
        self._epochs: dict[TopicPartition, int] = {}
        """The partitions that this broker coordinates, and the leader epoch since which it does."""

    def __repr__(self) -> str:
        return f"<Coordinating {sorted(map(str, self._epochs))}>"

    def append(self, wish: Append, now: Time) -> Partition | None:
        """A coordinator's records: appended as leader, with as many in-sync replicas as acks=all needs. The partition
        that has them now, None where it refused."""
        partition = self._replicas.get(*wish.partition)
        coordinator = self._coordinators[wish.partition.topic]
        try:
            if partition is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            appended = partition.append(wish.batch, -1, now, from_client=False)
        except ApiError as error:
            self._effects.extend(coordinator.append_failed(wish.token, error.code, now))
        except DiskFailed as failure:
            self._replicas.refused(failure)
            self._effects.extend(coordinator.append_failed(wish.token, ErrorCode.KAFKA_STORAGE_ERROR, now))
        else:
            self._effects.extend(coordinator.appended(wish.token, appended.first_offset, appended.last_offset, now))
            return partition
        return None

    def committed(self, partition: Partition, now: Time) -> None:
        """A partition that this broker leads may have a higher high watermark."""
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is not None:
            self._effects.extend(coordinator.committed(partition.name.partition, partition.high_watermark, now))

    def role_changed(self, partition: Partition, now: Time) -> None:
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is None:
            return
        try:
            self._take_or_leave(coordinator, partition, now)
        except DiskFailed as failure:
            self._replicas.refused(failure)

    def _take_or_leave(self, coordinator: Coordinator[Any], partition: Partition, now: Time) -> None:
        index = partition.name.partition
        if not isinstance(partition.role, Leader):
            if self._epochs.pop(partition.name, None) is not None:
                self._effects.extend(coordinator.resigned(index, now))
        elif self._epochs.get(partition.name) != partition.epoch:
            self._epochs[partition.name] = partition.epoch
            self._effects.extend(coordinator.elected(index, partition.epoch, now))
            self._load(coordinator, partition, now)
            self._effects.extend(coordinator.loaded(index, now))
            self.committed(partition, now)

    def _load(self, coordinator: Coordinator[Any], partition: Partition, now: Time) -> None:
        """Damaged records cost what follows them, not the broker: as Kafka, it serves what it could read."""
        try:
            for piece in _content(partition):
                self._effects.extend(coordinator.load(partition.name.partition, [piece], now))
        except ApiError as error:
            fields = {"partition": str(partition.name), "reason": str(error)}
            self._effects.append(Event("coordinator.incomplete", fields, level="error"))


def _content(partition: Partition) -> Iterator[bytes]:
    """The log from its start to its end, in pieces of whole batches."""
    offset, end = partition.log.log_start_offset, partition.log.log_end_offset
    while offset < end:
        piece = partition.log.read(offset, LOAD_BYTES, end, at_least_one=True)
        if piece is None:
            return
        data = piece.file.read(piece.position, piece.length)
        found = list(batches(memoryview(data)))
        if not found:
            return
        yield data
        offset = found[-1].next_offset
