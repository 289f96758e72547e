"""What the coordinators of groups and of transactions have in common: requests in, effects out, and the news of their
partitions.

A request is handed down with a token and, later or at once, answered by a `Reply`; `finish`, a function of the API's
own file, gives the answer the shape of the request's version.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from tidelog.alarms import Alarm
from tidelog.coordinator.contract import Machine
from tidelog.coordinator.gathering import Gatherings
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.coordinator.shards import Shards
from tidelog.effects import Effect, Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.ports import Buffer

Finish = Callable[[Any], Any]

M = TypeVar("M", bound=Machine)


class Requests(Protocol):
    """`handle(token, request, …)` gives a request to the shards that it concerns."""

    gatherings: Gatherings

    @property
    def handle(self) -> Callable[..., None]: ...


class Coordinator(Generic[M]):
    """Every input returns the effects to carry out in order. `Append` is answered by `appended` or `append_failed`
    first of all. After `loaded`, and whenever the high watermark moves, `committed` is called."""

    _requests: Requests

    def __init__(self, context: ShardContext, topic: str, build: Callable[[Shard], M]) -> None:
        self._shards = Shards[M](context, topic, build)
        self._finish: dict[int, Finish] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shards!r}>"

    def machines(self) -> list[M]:
        """The machines of all partitions that are led here, for status and checks."""
        return [self._shards.machine(shard.partition.partition) for shard in self._shards]

    def _handle(self, now: Time, finish: Finish | None, token: int, *arguments: Any) -> list[Effect]:
        assert token >= 0
        if finish is not None:
            self._finish[token] = finish
        return self._input(now, self._requests.handle, token, *arguments)

    def elected(self, partition: int, epoch: int, now: Time) -> list[Effect]:
        """This broker leads the partition in this epoch: `load` and `loaded` follow."""
        return self._input(now, self._shards.elected, partition, epoch)

    def load(self, partition: int, batches: Iterable[Buffer], now: Time) -> list[Effect]:
        """The next whole batches of the partition's log, in order. CorruptLog or ApiError where they cannot be read."""
        return self._input(now, self._shards.load, partition, batches)

    def loaded(self, partition: int, now: Time) -> list[Effect]:
        """Everything below the end of the log was loaded."""
        return self._input(now, self._shards.loaded, partition)

    def resigned(self, partition: int, now: Time) -> list[Effect]:
        """This broker no longer leads the partition."""
        return self._input(now, self._shards.resigned, partition)

    def appended(self, token: int, base_offset: int, last_offset: int, now: Time) -> list[Effect]:
        return self._input(now, self._shards.appended, token, base_offset, last_offset)

    def append_failed(self, token: int, code: ErrorCode, now: Time) -> list[Effect]:
        return self._input(now, self._shards.append_failed, token, code)

    def committed(self, partition: int, high_watermark: int, now: Time) -> list[Effect]:
        return self._input(now, self._shards.committed, partition, high_watermark)

    @property
    def next_deadline(self) -> int | None:
        """Monotonic milliseconds before which `wake` has nothing to do."""
        return self._shards.context.timers.next_deadline

    def wake(self, now: Time) -> list[Effect]:
        return self._input(now, self._shards.wake, now)

    def _input(self, now: Time, function: Callable[..., None], *arguments: Any) -> list[Effect]:
        self._shards.context.now = now
        try:
            function(*arguments)
            self._settle()
        finally:  # a request that fails costs its connection, not the timers that it had set
            self.alarm.set(self.next_deadline)
        return [drained for effect in self._shards.drain() if (drained := self._finished(effect)) is not None]

    def _settle(self) -> None:
        """What an input came to is complete: the last chance to add effects of it all."""

    def _finished(self, effect: Effect) -> Effect | None:
        """A part of an answer is kept until it is whole; a whole one gets its final shape."""
        if not isinstance(effect, Reply):
            return effect
        token, response = effect.token, effect.response
        if token < 0:
            gathered = self._requests.gatherings.take(token, response)
            if gathered is None:
                return None
            token, response = gathered
        finish = self._finish.pop(token, None)
        return Reply(token, response if finish is None else finish(response))
