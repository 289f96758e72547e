"""fsyncs that are due: by flush.messages and flush.ms, and of segments that were rolled. One under way for each log."""

from itertools import count

from tidelog.effects import Effect, Sync
from tidelog.model import Time, TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.partition.partition import NEVER, Partition


class Syncing:
    """Asks for syncs, and tells partitions when they are durable."""

    def __init__(self, replicas: HeldReplicas, out: list[Effect]) -> None:
        self._replicas = replicas
        self._out = out
        self._tokens = count(1)
        self._under_way: dict[int, tuple[TopicPartition, int]] = {}
        self._busy: set[TopicPartition] = set()
        self._timed: dict[TopicPartition, int] = {}

    def check(self, partition: Partition, now: Time) -> None:
        """The partition has grown: sync what is due, or remember when it will be."""
        if partition.name in self._busy or partition.failed:
            return
        log = partition.log
        if log.flush_due(now):
            self._timed.pop(partition.name, None)
            token = next(self._tokens)
            self._busy.add(partition.name)
            self._under_way[token] = (partition.name, log.log_end_offset)
            self._out.append(Sync(token, log.unsynced()))
        elif partition.config.flush_ms < NEVER and log.recovery_point < log.log_end_offset:
            self._timed.setdefault(partition.name, now.mono + partition.config.flush_ms)

    def done(self, token: int) -> list[Partition]:
        """The partition that this sync made durable, if it still is here; empty for syncs nobody waits for."""
        found = self._under_way.pop(token, None)
        if found is None:
            return []
        name, end = found
        self._busy.discard(name)
        partition = self._replicas.get(*name)
        if partition is None:
            return []
        partition.log.mark_synced(end)
        partition.flush_pending = False
        return [partition]

    def wake(self, now: Time) -> None:
        for name in [name for name, moment in self._timed.items() if moment <= now.mono]:
            del self._timed[name]
            partition = self._replicas.get(*name)
            if partition is not None:
                self.check(partition, now)

    @property
    def busy(self) -> bool:
        return bool(self._under_way)

    @property
    def next_deadline(self) -> int | None:
        return min(self._timed.values(), default=None)
