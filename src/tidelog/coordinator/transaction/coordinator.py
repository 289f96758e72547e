"""The transaction coordinator of one broker. Markers leave as `Ask`s, and their answers come back by `answered`."""

from collections.abc import Callable
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.coordinator import Coordinator, Finish
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.coordinator.transaction import timing
from tidelog.coordinator.transaction.machine import Rules, TransactionMachine
from tidelog.coordinator.transaction.markers import Find, Markers
from tidelog.coordinator.transaction.requests import Requests
from tidelog.effects import Effect
from tidelog.model import TRANSACTION_TOPIC, Time


class TransactionCoordinator(Coordinator[TransactionMachine]):
    """All transactional ids whose partition of `__transaction_state` this broker leads. `find` tells who leads a
    partition, `next_id` gives producer ids."""

    def __init__(self, config: BrokerConfig, *, find: Find, next_id: Callable[[], int | None]) -> None:
        self.config = config
        self._next_id = next_id
        context = ShardContext(config.request_timeout_ms, 0)
        super().__init__(context, TRANSACTION_TOPIC, self._machine)
        self._requests = Requests(config, self._shards)
        self._markers = Markers(context, find)

    def _machine(self, shard: Shard) -> TransactionMachine:
        rules = Rules(begin=timing.begin, send=self._markers.send)
        return TransactionMachine(shard, self.config, self._next_id, rules)

    def partition_for(self, transactional_id: str, partitions: int = 0) -> int:
        """The partition of the transaction topic that holds the id, of so many, or of as many as it will have."""
        return partition_for(transactional_id, partitions or self.config.transaction_state_log_num_partitions)

    def handle(
        self, token: int, request: Any, partitions: int, now: Time, finish: Finish | None = None
    ) -> list[Effect]:
        """One of the requests of this package, or a list of AddPartitions; tokens are not negative. `partitions` is
        the size of the transaction topic, 0 where it does not exist yet."""
        return self._handle(now, finish, token, request, partitions)

    def answered(self, token: int, response: Any, now: Time) -> list[Effect]:
        """A broker's answer to markers; None where there will be none."""
        return self._input(now, self._markers.answered, token, response)

    def _settle(self) -> None:
        self._markers.flush()
