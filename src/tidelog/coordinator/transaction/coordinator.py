"""The transaction coordinator of one broker: for each request, its shards and the operation that answers it. Markers
are sent as `PeerRequest` effects; their responses come back through `answered`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.coordinator import Coordinator, Finish
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shard import Shard, ShardContext
from tidelog.coordinator.transaction.describe import (
    DescribeTransactions,
    ListTransactions,
    describe,
    described_error,
    listed,
    to_list,
)
from tidelog.coordinator.transaction.machine import TransactionHooks, TransactionMachine
from tidelog.coordinator.transaction.markers import FindLeader, Markers
from tidelog.coordinator.transaction.operations import (
    AddPartitions,
    AddPartitionsResult,
    EndTransaction,
    EndTransactionResult,
    InitProducerId,
    InitProducerIdResult,
    add,
    end,
    init,
    start_timers,
    verify,
)
from tidelog.effects import Effect
from tidelog.errors import ErrorCode
from tidelog.model import TRANSACTION_TOPIC, Time
from tidelog.slices import Sliced, all_of, made_of
from tidelog.wire.messages.transactions.transaction_admin import DescribeTransactionsResponse, ListTransactionsResponse


class TransactionCoordinator(Coordinator[TransactionMachine]):
    """All transactional IDs whose partition of `__transaction_state` this broker leads. `find` returns the leader of a
    partition, `next_id` a new producer ID."""

    def __init__(self, config: BrokerConfig, *, find: FindLeader, next_id: Callable[[], int | None]) -> None:
        self.config = config
        self._next_id = next_id
        context = ShardContext(config.request_timeout_ms, 0)
        super().__init__(context, TRANSACTION_TOPIC, self._machine)
        self._markers = Markers(context, find)

    def _machine(self, shard: Shard) -> TransactionMachine:
        hooks = TransactionHooks(on_loaded=start_timers, send_markers=self._markers.send)
        return TransactionMachine(shard, self.config, self._next_id, hooks)

    def partition_for(self, transactional_id: str, partitions: int = 0) -> int:
        """The partition of the transaction topic that holds the ID. `partitions` is the size of the topic; 0 means the
        size that it will be created with."""
        return partition_for(transactional_id, partitions or self.config.transaction_state_log_num_partitions)

    def transactional_ids(self) -> list[str]:
        """Those of the partitions that are led here."""
        machines = [self._shards.machine(shard.partition.partition) for shard in self._shards]
        return [found for machine in machines for found, _ in machine.transactions.committed_items()]

    def handle(
        self, token: int, request: Any, partitions: int, now: Time, finish: Finish | None = None
    ) -> list[Effect]:
        """Handle one of the requests of this package, or a list of AddPartitions; tokens are not negative. `partitions`
        is the size of the transaction topic, 0 if it does not exist yet."""
        return self._handle(now, finish, token, request, partitions)

    def answered(self, token: int, response: Any, now: Time) -> list[Effect]:
        """A broker's response to markers; None if there will be none."""
        return self._input(now, self._markers.answered, token, response)

    def _before_drain(self) -> None:
        self._markers.flush()

    # Requests.

    def _init(self, token: int, request: InitProducerId, partitions: int) -> None:
        where = self.partition_for(request.transactional_id, partitions)
        self._shards.execute(
            where, lambda machine: init(machine, request, token, InitProducerIdResult), token, InitProducerIdResult
        )

    def _add(self, token: int, request: AddPartitions, partitions: int) -> None:
        self._add_one(token, self.partition_for(request.transactional_id, partitions), request)

    def _add_all(self, token: int, request: list[AddPartitions], partitions: int) -> None:
        """Each transaction is handled on its own; the response is a list."""
        if not request:
            self._reply(token, [])
            return
        parts = self._combined.open(token, len(request), list)
        for part, one in zip(parts, request, strict=True):
            self._add_one(part, self.partition_for(one.transactional_id, partitions), one)

    def _add_one(self, token: int, where: int, request: AddPartitions) -> None:
        if request.verify_only:
            self._shards.execute(where, lambda machine: verify(machine, request), token, AddPartitionsResult)
        else:
            self._shards.execute(
                where, lambda machine: add(machine, request, token, AddPartitionsResult), token, AddPartitionsResult
            )

    def _end(self, token: int, request: EndTransaction, partitions: int) -> None:
        where = self.partition_for(request.transactional_id, partitions)
        self._shards.execute(where, lambda machine: end(machine, request), token, EndTransactionResult)

    def _describe(self, token: int, request: DescribeTransactions, partitions: int) -> None:
        if not request.transactional_ids:
            self._reply(token, DescribeTransactionsResponse())
            return
        parts = self._combined.open(token, len(request.transactional_ids), _all_described)
        for part, transactional_id in zip(parts, request.transactional_ids, strict=True):
            refuse = partial(described_error, transactional_id)
            if not transactional_id:
                self._reply(part, refuse(ErrorCode.INVALID_REQUEST))
                continue
            where = self.partition_for(transactional_id, partitions)
            self._shards.read(where, partial(_described, transactional_id), part, refuse)

    def _list(self, token: int, request: ListTransactions, partitions: int) -> None:
        """The transactions of the partitions that are led here; a client queries every broker."""
        del partitions
        led = [shard.partition.partition for shard in self._shards]
        if not led:
            self._reply(token, ListTransactionsResponse())
            return
        parts = self._combined.open(token, len(led), partial(_listed, request, self._shards.context.now.wall))
        for part, where in zip(parts, led, strict=True):
            self._shards.read(where, to_list, part, lambda code: code)

    _HANDLERS: ClassVar[Mapping[type, Callable[..., None]]] = {
        InitProducerId: _init,
        AddPartitions: _add,
        list: _add_all,
        EndTransaction: _end,
        DescribeTransactions: _describe,
        ListTransactions: _list,
    }


def _described(transactional_id: str, machine: TransactionMachine) -> Any:
    return describe(machine, transactional_id)


def _all_described(parts: Sequence[Any]) -> Sliced[DescribeTransactionsResponse]:
    states = yield from all_of(parts)
    return DescribeTransactionsResponse(transaction_states=states)


def _listed(request: ListTransactions, wall: int, parts: Sequence[Any]) -> Sliced[ListTransactionsResponse]:
    """A part is a list, or the error code of a partition that could not answer."""
    for part in parts:
        if isinstance(part, ErrorCode) and part != ErrorCode.NOT_COORDINATOR:
            return ListTransactionsResponse(error_code=part)
    found = [transaction for part in parts if isinstance(part, list) for transaction in part]
    states = yield from made_of(found, partial(listed, request, wall))
    return ListTransactionsResponse(transaction_states=states)
