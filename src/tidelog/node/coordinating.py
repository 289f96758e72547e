"""What a broker does for its coordinators: the leader of a partition of an internal topic coordinates what it holds.

A coordinator replays the partition's log before it serves, its records are appended as leader, and its answers wait
for the high watermark. What it replays is checked against checksums first, as fetched records are: until corruption is
repaired it stays loading, and requests get COORDINATOR_LOAD_IN_PROGRESS. A wrong offset would be worse than none.
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
    """A partition that has been replayed up to `offset` since a time (monotonic ms). `reason` is why it is stuck, as an
    event reported. It is retried at `retry_at`, or when the partition becomes dirty."""

    partition: Partition
    offset: int
    since: int
    reason: str = ""
    retry_at: int | None = None


class Coordinating:
    """`coordinators` by their topic. `examine` is called for a read that must be examined first."""

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
        self.loading: dict[TopicPartition, Loading] = {}
        """The partitions of coordinators that do not serve yet."""
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Coordinating {sorted(map(str, self._epochs))}>"

    def append(self, effect: Append, now: Time) -> Partition | None:
        """A coordinator's records: appended as leader, with as many in-sync replicas as acks=all needs. Returns
        the partition, or None if it refused."""
        partition = self._replicas.get(*effect.partition)
        coordinator = self._coordinators[effect.partition.topic]
        try:
            if partition is None:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            appended = partition.append(effect.batch, -1, now, from_client=False)
        except ApiError as error:
            self._effects.extend(coordinator.append_failed(effect.token, error.code, now))
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            self._effects.extend(coordinator.append_failed(effect.token, ErrorCode.KAFKA_STORAGE_ERROR, now))
        else:
            self._effects.extend(coordinator.appended(effect.token, appended.first_offset, appended.last_offset, now))
            return partition
        return None

    def committed(self, partition: Partition, now: Time) -> None:
        """A partition that this broker leads is dirty: a higher high watermark, or it was examined or repaired."""
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is not None:
            loading = self.loading.get(partition.name)
            if loading is not None:
                self._continue_loading(loading, now)
            self._effects.extend(coordinator.committed(partition.name.partition, partition.high_watermark, now))

    def role_changed(self, partition: Partition, now: Time) -> None:
        coordinator = self._coordinators.get(partition.name.topic)
        if coordinator is None:
            return
        name = partition.name
        if not isinstance(partition.role, Leader):
            if self.loading.pop(name, None) is not None:
                self.alarm.set(self.next_deadline)
            if self._epochs.pop(name, None) is not None:
                self._effects.extend(coordinator.resigned(name.partition, now))
        elif self._epochs.get(name) != partition.epoch:
            is_new = name not in self._epochs
            self._epochs[name] = partition.epoch
            self._effects.extend(coordinator.elected(name.partition, partition.epoch, now))
            if is_new:  # else this broker led all the time: what it has replayed is what the log holds
                self.loading[name] = Loading(partition, partition.log.log_start_offset, now.mono)
            self.committed(partition, now)

    # Loading.

    @property
    def next_deadline(self) -> int | None:
        return earliest(*(loading.retry_at for loading in self.loading.values()))

    def wake(self, now: Time) -> None:
        for loading in list(self.loading.values()):
            if loading.retry_at is not None and loading.retry_at <= now.mono:
                self._continue_loading(loading, now)

    def _continue_loading(self, loading: Loading, now: Time) -> None:
        """Replay as much as is known to be sound; the partition is dirty once more is."""
        name = loading.partition.name
        loading.retry_at = None
        try:
            self._load(loading, now)
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
        except Unsound as found:
            code = self._examine(loading.partition, found)
            if code == ErrorCode.CORRUPT_MESSAGE:
                self._report(loading, str(found))
            loading.retry_at = now.mono + RETRY_MS
        except ApiError as error:
            self._report(loading, str(error))
            loading.retry_at = now.mono + RETRY_MS
        else:
            del self.loading[name]
            self._effects.extend(self._coordinators[name.topic].loaded(name.partition, now))
        self.alarm.set(self.next_deadline)

    def _load(self, loading: Loading, now: Time) -> None:
        """Replay up to the log's end, in pieces of whole batches. Unsound or ApiError if it cannot be read."""
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

    def _report(self, loading: Loading, reason: str) -> None:
        if not loading.reason:
            loading.reason = reason
            fields = {"partition": str(loading.partition.name), "offset": loading.offset, "reason": reason}
            self._effects.append(Event("coordinator.incomplete", fields, level="error"))
