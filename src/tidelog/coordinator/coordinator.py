"""What the coordinators of groups and of transactions share: requests in, effects out, and changes of their partitions.

A request comes with a token and is answered, at once or later, by a `Reply`; a large response is a generator
(`slices`). `finish`, a function of the API's own file, gives the response the shape of the request's version. `Shards`
are the partitions that this broker leads;
`CombinedResponses` builds one response from those of several shards.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Generic, TypeVar

from tidelog.alarms import Alarm
from tidelog.coordinator.contract import Machine, Refuse
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.effects import Effect, Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.ports import Buffer
from tidelog.slices import Sliced, begun, ended

Combine = Callable[[Sequence[Any]], Any]
Finish = Callable[[Any], Any]


@dataclass(slots=True)
class _CombinedResponse:
    token: int
    combine: Combine
    missing: int
    parts: list[Any] = field(default_factory=list)


class CombinedResponses:
    """Responses that wait for parts. Each part has a token of its own, a negative number, which no request has."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[_CombinedResponse, int]] = {}
        self._tokens = count(-1, -1)

    def __repr__(self) -> str:
        return f"<Gatherings {len(self)} parts missing>"

    def __len__(self) -> int:
        return len(self._parts)

    def open(self, token: int, parts: int, combine: Combine) -> list[int]:
        """Tokens for this number of parts, at least one; `combine` gets the parts in this order."""
        assert parts > 0
        combined = _CombinedResponse(token, combine, parts, [None] * parts)
        tokens = [next(self._tokens) for _ in range(parts)]
        for index, part in enumerate(tokens):
            self._parts[part] = (combined, index)
        return tokens

    def add_part(self, part: int, response: Any) -> tuple[int, Any] | None:
        """Store one part; return the token and the response once no part is missing."""
        combined, index = self._parts.pop(part)
        combined.parts[index] = response
        combined.missing -= 1
        if combined.missing:
            return None
        return combined.token, combined.combine(combined.parts)


M = TypeVar("M", bound=Machine)


class Shards(Generic[M]):
    """The partitions of the coordinator's topic that this broker leads. `build` makes the state machine of a new shard.
    Inputs name a partition index; an input for a partition that is not led here is ignored, because it may cross with
    the loss of leadership. `drain` returns the effects of the inputs since the last call."""

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
        """Start loading, or only store the epoch if this broker leads already."""
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


class Coordinator(Generic[M]):
    """Every input returns the effects to carry out, in order. Each `Append` is answered by `appended` or
    `append_failed` before any other input. `committed` is called after `loaded` and whenever the high watermark moves.
    """

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]]
    """The type of a request → the method that takes its token, the request, and the caller's other arguments."""

    def __init__(self, context: ShardContext, topic: str, build: Callable[[Shard], M]) -> None:
        self._shards = Shards[M](context, topic, build)
        self._combined = CombinedResponses()
        self._finish: dict[int, Finish] = {}
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._shards!r}>"

    def machines(self) -> list[M]:
        """The machines of all partitions that are led here, for status and checks."""
        return [self._shards.machine(shard.partition.partition) for shard in self._shards]

    def _handle(self, now: Time, finish: Finish | None, token: int, request: Any, *arguments: Any) -> list[Effect]:
        assert token >= 0
        if finish is not None:
            self._finish[token] = finish
        return self._input(now, self._HANDLERS[type(request)], self, token, request, *arguments)

    def _reply(self, token: int, response: Any) -> None:
        self._shards.context.effects.append(Reply(token, response))

    def elected(self, partition: int, epoch: int, now: Time) -> list[Effect]:
        """This broker leads the partition in this epoch: `load` and `loaded` follow."""
        return self._input(now, self._shards.elected, partition, epoch)

    def load(self, partition: int, batches: Iterable[Buffer], now: Time) -> list[Effect]:
        """The next whole batches of the partition's log, in order. Raises CorruptLog or ApiError if they cannot be
        read."""
        return self._input(now, self._shards.load, partition, batches)

    def loaded(self, partition: int, now: Time) -> list[Effect]:
        """Everything below the end of the log was passed to `load`."""
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
        """Monotonic milliseconds; `wake` has nothing to do before."""
        return self._shards.context.timers.next_deadline

    def wake(self, now: Time) -> list[Effect]:
        return self._input(now, self._shards.wake, now)

    def _input(self, now: Time, function: Callable[..., None], *arguments: Any) -> list[Effect]:
        self._shards.context.now = now
        try:
            function(*arguments)
            self._before_drain()
        finally:  # a request that fails closes its connection; the timers that it set must still fire
            self.alarm.set(self.next_deadline)
        return [drained for effect in self._shards.drain() if (drained := self._finished(effect)) is not None]

    def _before_drain(self) -> None:
        """Add effects that depend on everything that this input caused."""

    def _finished(self, effect: Effect) -> Effect | None:
        """None for a part of an incomplete response; a complete response gets its final shape."""
        if not isinstance(effect, Reply):
            return effect
        token, response = effect.token, effect.response
        if token < 0:
            combined = self._combined.add_part(token, response)
            if combined is None:
                return None
            token, response = combined
        return Reply(token, begun(_finished(response, self._finish.pop(token, None))))


def _finished(response: Any, finish: Finish | None) -> Sliced[Any]:
    response = yield from ended(response)
    return response if finish is None else (yield from ended(finish(response)))
