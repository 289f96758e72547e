"""What a broker does for its coordinators: whoever leads a partition of an internal topic coordinates what it holds.

A coordinator replays the partition's log before it serves, its records are appended as leader, and its answers wait
for the high watermark. What it replays is held against its checksums first, as what clients read is: it goes on
loading, and whoever asks is told to come again, until rot is mended. A wrong position would be worse than none.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidelog.alarms import Alarm
from tidelog.coordinator.coordinator import Coordinator
from tidelog.effects import Append, Effect, Event
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.log.integrity import Unsound
from tidelog.model import Time, TopicPartition, earliest
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.wire.records import batches

LOAD_BYTES = 1 << 20
RETRY_MS = 1_000


@dataclass(slots=True, eq=False)
class Loading:
    """A partition of which all below `offset` is replayed. `told`: that it goes no further. It is tried again at
    `retry_at`, unless it is dirty before."""

    partition: Partition
    offset: int
    told: bool = False
    retry_at: int | None = None


class Coordinating:
    """`coordinators` by their topic. `examine` is told of a read that must be examined first."""

    def __init__(
        self,
        coordinators: Mapping[str, Coordinator[Any]],
        replicas: HeldReplicas,
        effects: list[Effect],
        examine: Callable[[Partition, Unsound], ErrorCode],
    ) -> None:
        self._coordinators = coordinators
        self._replicas = replicas
        self._effects = effects
        self._examine = examine
        self._epochs: dict[TopicPartition, int] = {}
        """The partitions that this broker coordinates, and the leader epoch since which it does."""
        self._loading: dict[TopicPartition, Loading] = {}
        self.alarm = Alarm()

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
        """A partition that this broker leads is dirty: a higher high watermark, or it was examined or mended."""
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is not None:
            loading = self._loading.get(partition.name)
            if loading is not None:
                self._go_on(loading, now)
            self._effects.extend(coordinator.committed(partition.name.partition, partition.high_watermark, now))

    def role_changed(self, partition: Partition, now: Time) -> None:
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is None:
            return
        name = partition.name
        if not isinstance(partition.role, Leader):
            if self._loading.pop(name, None) is not None:
                self.alarm.set(self.next_deadline)
            if self._epochs.pop(name, None) is not None:
                self._effects.extend(coordinator.resigned(name.partition, now))
        elif self._epochs.get(name) != partition.epoch:
            is_new = name not in self._epochs
            self._epochs[name] = partition.epoch
            self._effects.extend(coordinator.elected(name.partition, partition.epoch, now))
            if is_new:  # else this broker led all the time: what it has replayed is what the log holds
                self._loading[name] = Loading(partition, partition.log.log_start_offset)
            self.committed(partition, now)

    # Loading.

    @property
    def next_deadline(self) -> int | None:
        return earliest(*(loading.retry_at for loading in self._loading.values()))

    def wake(self, now: Time) -> None:
        for loading in list(self._loading.values()):
            if loading.retry_at is not None and loading.retry_at <= now.mono:
                self._go_on(loading, now)

    def _go_on(self, loading: Loading, now: Time) -> None:
        """Replay as much as is known to be sound; the partition is dirty once more is."""
        name = loading.partition.name
        loading.retry_at = None
        try:
            self._load(loading, now)
        except DiskFailed as failure:
            self._replicas.refused(failure)
        except Unsound as found:
            code = self._examine(loading.partition, found)
            if code == ErrorCode.CORRUPT_MESSAGE:
                self._tell(loading, str(found))
            loading.retry_at = now.mono + RETRY_MS
        except ApiError as error:
            self._tell(loading, str(error))
            loading.retry_at = now.mono + RETRY_MS
        else:
            del self._loading[name]
            self._effects.extend(self._coordinators[name.topic].loaded(name.partition, now))
        self.alarm.set(self.next_deadline)

    def _load(self, loading: Loading, now: Time) -> None:
        """To the log's end, in pieces of whole batches. Unsound or ApiError where it cannot be read."""
        partition, coordinator = loading.partition, self._coordinators[loading.partition.name.topic]
        while loading.offset < (end := partition.log.log_end_offset):
            piece = partition.read(loading.offset, LOAD_BYTES, end, at_least_one=True)
            if piece is None:
                return
            data = piece.file.read(piece.position, piece.length)
            found = list(batches(memoryview(data)))
            if not found:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"there is no record batch at offset {loading.offset}")
            self._effects.extend(coordinator.load(partition.name.partition, [data], now))
            loading.offset = found[-1].next_offset

    def _tell(self, loading: Loading, reason: str) -> None:
        if not loading.told:
            loading.told = True
            fields = {"partition": str(loading.partition.name), "offset": loading.offset, "reason": reason}
            self._effects.append(Event("coordinator.incomplete", fields, level="error"))
