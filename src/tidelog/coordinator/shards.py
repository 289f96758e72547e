"""The shards of one coordinator: which partitions of its topic this broker leads, and the way in to each.

Inputs name a partition index; what it no longer leads is ignored, because the news of a lost leadership may cross with
anything. `drain` gives what the inputs since the last call came to.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from tidelog.coordinator.contract import Machine, Refuse
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.effects import Effect, Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer

M = TypeVar("M", bound=Machine)


class Shards(Generic[M]):
    """`build` makes the state machine of a new shard."""

    def __init__(self, context: ShardContext, topic: str, build: Callable[[Shard], M]) -> None:
        self.context = context
        self._topic = topic
        self._build = build
        self._shards: dict[int, Shard] = {}

    def __repr__(self) -> str:
        return f"<Shards of {self._topic}: {list(self._shards.values())}>"

    def __iter__(self) -> Iterator[Shard]:
        return iter(self._shards.values())

    def get(self, partition: int) -> Shard | None:
        return self._shards.get(partition)

    def machine(self, partition: int) -> M:
        """The machine of a partition that is led here."""
        machine: Any = self._shards[partition].machine
        return machine  # type: ignore[no-any-return]  # every machine here was made by `build`

    def drain(self) -> list[Effect]:
        drained, self.context.effects = self.context.effects, []
        return drained

    # Requests.

    def execute(self, partition: int, run: Callable[[M], Any], token: int, refuse: Refuse) -> None:
        """Run a writing operation on the partition's machine."""
        shard = self._shards.get(partition)
        if shard is None:
            self._not_here(token, refuse)
            return
        machine = self.machine(partition)
        shard.execute(lambda: run(machine), token, refuse)

    def read(self, partition: int, respond: Callable[[M], Any], token: int, refuse: Refuse) -> None:
        """Answer from the committed state of the partition's machine."""
        shard = self._shards.get(partition)
        if shard is None:
            self._not_here(token, refuse)
            return
        machine = self.machine(partition)
        shard.read(lambda: respond(machine), token, refuse)

    def _not_here(self, token: int, refuse: Refuse) -> None:
        self.context.effects.append(Reply(token, refuse(ErrorCode.NOT_COORDINATOR)))

    # Leadership and the log.

    def elected(self, partition: int, epoch: int) -> None:
        """Begin to load, or only take note of the epoch where this broker led already."""
        shard = self._shards.get(partition)
        if shard is not None:
            shard.epoch = max(shard.epoch, epoch)
            return
        shard = Shard(self.context, TopicPartition(self._topic, partition), epoch, self._build)
        self._shards[partition] = shard
        shard.event("coordinator.loading", partition=str(shard.partition), epoch=epoch)

    def load(self, partition: int, content: Iterable[Buffer]) -> None:
        shard = self._shards.get(partition)
        if shard is not None and shard.is_loading:
            for chunk in content:
                shard.load(chunk)

    def loaded(self, partition: int) -> None:
        shard = self._shards.get(partition)
        if shard is not None and shard.is_loading:
            shard.loaded()
            shard.event("coordinator.loaded", partition=str(shard.partition), epoch=shard.epoch)

    def resigned(self, partition: int) -> None:
        shard = self._shards.pop(partition, None)
        if shard is not None:
            shard.resigned()
            shard.event("coordinator.resigned", partition=str(shard.partition), epoch=shard.epoch)

    def committed(self, partition: int, high_watermark: int) -> None:
        shard = self._shards.get(partition)
        if shard is not None:
            shard.committed(high_watermark)

    def appended(self, token: int, base_offset: int, last_offset: int) -> None:
        shard = self.context.appends.pop(token)
        if shard.is_alive:
            shard.appended(base_offset, last_offset)

    def transaction_ended(self, partition: int, offset: int, producer_id: int, *, committed: bool) -> None:
        shard = self._shards.get(partition)
        if shard is not None:
            shard.transaction_ended(offset, producer_id, committed=committed)

    def append_failed(self, token: int, code: ErrorCode) -> None:
        shard = self.context.appends.pop(token)
        if shard.is_alive:
            shard.append_failed(code)

    # Time.

    def wake(self, now: Time) -> None:
        due = self.context.timers.due(now.mono)
        for shard, key, run in due:
            shard.fired(key, run)
        for shard, key, run in due:
            if shard.is_alive:
                shard.run_fired(key, run)
