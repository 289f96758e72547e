"""fsyncs that are due: by flush.messages and flush.ms, and of segments that were rolled. One under way for each log."""

from itertools import count

from tidelog.alarms import Alarm
from tidelog.effects import Effect, Sync
from tidelog.errors import DiskFailed
from tidelog.model import Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.partition import NEVER, Partition


class Syncing:
    """Orders syncs, and notifies partitions when they are durable."""

    def __init__(self, replicas: HeldReplicas, out: list[Effect]) -> None:
        self._replicas = replicas
        self._out = out
        self._tokens = count(1)
        self._under_way: dict[int, tuple[Partition, int]] = {}
        self._busy: set[Partition] = set()
        self._timed: dict[TopicPartition, int] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<Syncing {len(self._busy)} partitions, {len(self._timed)} due by time>"

    def check(self, partition: Partition, now: Time) -> None:
        """The partition has grown: sync what is due, or remember when it will be."""
        if partition in self._busy or partition.failed:
            return
        log = partition.log
        if log.flush_due(now):
            if self._timed.pop(partition.name, None) is not None:
                self.alarm.set(self.next_deadline)
            self._sync(partition)
        elif partition.config.flush_ms < NEVER and log.durability.dirty:  # since the last flush, as in Kafka
            self._timed[partition.name] = log.durability.since + partition.config.flush_ms
            self.alarm.set(self.next_deadline)

    def _sync(self, partition: Partition) -> None:
        end = partition.log.log_end_offset
        try:
            files = partition.log.unsynced()
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return
        token = next(self._tokens)
        self._busy.add(partition)
        self._under_way[token] = partition, end
        self._out.append(Sync(token, files))

    def done(self, token: int, now: Time) -> Partition | None:
        """The partition that this sync made durable, if it is still here; None for other syncs."""
        partition, end = self._end(token)
        if partition is None or self._replicas.get(*partition.name) is not partition:
            return None
        partition.flushed(end, now)
        return partition

    def failed(self, token: int) -> None:
        """Nothing is durable by it."""
        self._end(token)

    def _end(self, token: int) -> tuple[Partition | None, int]:
        partition, end = self._under_way.pop(token, (None, 0))
        if partition is not None:
            self._busy.discard(partition)
        return partition, end

    def wake(self, now: Time) -> None:
        for name in [name for name, moment in self._timed.items() if moment <= now.mono]:
            del self._timed[name]
            partition = self._replicas.get(*name)
            if partition is not None:
                self.check(partition, now)
        self.alarm.set(self.next_deadline)

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    @property
    def next_deadline(self) -> int | None:
        return min(self._timed.values()) if self._timed else None
