"""The transaction coordinator of one broker: requests in, effects out.

A request is handed down with a token and, later or at once, answered by a `Reply`; `finish`, a function of the API's
own file, gives the answer the shape of the request's version. Markers leave as `Ask`s, and their answers come back by
`answered`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tidelog import effects
from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Desk, Shard
from tidelog.coordinator.shards import Shards
from tidelog.coordinator.transaction import timing
from tidelog.coordinator.transaction.machine import Rules, TransactionMachine
from tidelog.coordinator.transaction.markers import Find, Markers
from tidelog.coordinator.transaction.requests import Requests
from tidelog.effects import Effect
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTION_TOPIC, Time
from tidelog.ports import Buffer

Finish = Callable[[Any], Any]


class TransactionCoordinator:
    """All transactional ids whose partition of `__transaction_state` this broker leads. Inputs as of the group
    coordinator. `find` tells who leads a partition, `next_id` gives producer ids."""

    def __init__(self, config: BrokerConfig, *, find: Find, next_id: Callable[[], int | None]) -> None:
        self.config = config
        self._next_id = next_id
        desk = Desk(config.request_timeout_ms, 0)
        self._shards = Shards[TransactionMachine](desk, TRANSACTION_TOPIC, self._machine)
        self._requests = Requests(config, self._shards)
        self._markers = Markers(desk, find)
        self._finish: dict[int, Finish] = {}

    def __repr__(self) -> str:
        return f"<TransactionCoordinator {self._shards!r}>"

    def _machine(self, shard: Shard) -> TransactionMachine:
        rules = Rules(begin=timing.begin, send=self._markers.send)
        return TransactionMachine(shard, self.config, self._next_id, rules)

    def partition_for(self, transactional_id: str, partitions: int = 0) -> int:
        """The partition of the transaction topic that holds the id, of so many, or of as many as it will have."""
        return partition_for(transactional_id, partitions or self.config.transaction_state_log_num_partitions)

    def machines(self) -> list[TransactionMachine]:
        """The machines of all partitions that are led here, for status and checks."""
        return [self._shards.machine(shard.partition.partition) for shard in self._shards]

    def handle(
        self, token: int, request: Any, partitions: int, now: Time, finish: Finish | None = None
    ) -> list[Effect]:
        """One of the requests of this package, or a list of AddPartitions; tokens are not negative. `partitions` is
        the size of the transaction topic, 0 where it does not exist yet."""
        assert token >= 0
        if finish is not None:
            self._finish[token] = finish
        return self._input(now, self._requests.handle, token, request, partitions)

    def answered(self, token: int, response: Any, now: Time) -> list[Effect]:
        """A broker's answer to markers; None where there will be none."""
        return self._input(now, self._markers.answered, token, response)

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
        return self._shards.next_deadline

    def wake(self, now: Time) -> list[Effect]:
        return self._input(now, self._shards.wake, now)

    def _input(self, now: Time, function: Callable[..., None], *arguments: Any) -> list[Effect]:
        self._shards.desk.now = now
        function(*arguments)
        self._markers.flush()
        return [drained for effect in self._shards.drain() if (drained := self._finished(effect)) is not None]

    def _finished(self, effect: Effect) -> Effect | None:
        """A part of an answer is kept until it is whole; a whole one gets its final shape."""
        if not isinstance(effect, effects.Reply):
            return effect
        token, response = effect.token, effect.response
        if token < 0:
            gathered = self._requests.gatherings.take(token, response)
            if gathered is None:
                return None
            token, response = gathered
        finish = self._finish.pop(token, None)
        return effects.Reply(token, response if finish is None else finish(response))
