"""What a broker does for its group coordinator: whoever leads a partition of the groups' topic coordinates its groups.

The coordinator replays the partition's log before it serves, its records are appended as leader, and its answers wait
for the high watermark.
"""

from collections.abc import Iterator

from tidelog.coordinator.group import GroupCoordinator
from tidelog.effects import Append, Effect, Event
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import GROUP_TOPIC, Time
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.wire.records import batches

LOAD_BYTES = 1 << 20


class Coordinating:
    def __init__(self, groups: GroupCoordinator, replicas: HeldReplicas, effects: list[Effect]) -> None:
        self._groups = groups
        self._replicas = replicas
        self._effects = effects
        self._epochs: dict[int, int] = {}
        """The partitions whose groups this broker coordinates, and the leader epoch since which it does."""

    def __repr__(self) -> str:
        return f"<Coordinating {sorted(self._epochs)}>"

    def append(self, wish: Append, now: Time) -> Partition | None:
        """A coordinator's records: appended as leader, with as many in-sync replicas as acks=all needs. The partition
        that has them now, None where it refused."""
        partition = self._replicas.get(*wish.partition)
        try:
            if partition is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            appended = partition.append(wish.batch, -1, now, from_client=False)
        except ApiError as error:
            self._effects.extend(self._groups.append_failed(wish.token, error.code, now))
        except DiskFailed as failure:
            self._replicas.folder_failed(failure.folder, failure.reason)
            self._effects.extend(self._groups.append_failed(wish.token, ErrorCode.KAFKA_STORAGE_ERROR, now))
        else:
            self._effects.extend(self._groups.appended(wish.token, appended.first_offset, appended.last_offset, now))
            return partition
        return None

    def committed(self, partition: Partition, now: Time) -> None:
        """A partition that this broker leads may have a higher high watermark."""
        if partition.name.topic == GROUP_TOPIC:
            self._effects.extend(self._groups.committed(partition.name.partition, partition.high_watermark, now))

    def role_changed(self, partition: Partition, now: Time) -> None:
        if partition.name.topic != GROUP_TOPIC:
            return
        try:
            self._take_or_leave(partition, now)
        except DiskFailed as failure:
            self._replicas.folder_failed(failure.folder, failure.reason)

    def _take_or_leave(self, partition: Partition, now: Time) -> None:
        index = partition.name.partition
        if not isinstance(partition.role, Leader):
            if self._epochs.pop(index, None) is not None:
                self._effects.extend(self._groups.resigned(index, now))
        elif self._epochs.get(index) != partition.epoch:
            self._epochs[index] = partition.epoch
            self._effects.extend(self._groups.elected(index, partition.epoch, now))
            self._load(partition, now)
            self._effects.extend(self._groups.loaded(index, now))
            self.committed(partition, now)

    def _load(self, partition: Partition, now: Time) -> None:
        """Damaged records cost what follows them, not the broker: as Kafka, it serves what it could read."""
        try:
            for piece in _content(partition):
                self._effects.extend(self._groups.load(partition.name.partition, [piece], now))
        except ApiError as error:
            fields = {"partition": str(partition.name), "reason": str(error)}
            self._effects.append(Event("groups.incomplete", fields, level="error"))


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
