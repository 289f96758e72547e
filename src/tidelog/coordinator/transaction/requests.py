"""What each request asks of which shards, and how an answer that needs several comes together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tidelog import effects
from tidelog.config.broker import BrokerConfig
from tidelog.coordinator.gathering import Gatherings
from tidelog.coordinator.placement import partition_for
from tidelog.coordinator.shards import Shards
from tidelog.coordinator.transaction.beginning import Init, Inited, init
from tidelog.coordinator.transaction.describing import Describe, ListAll, describe, described_error, list_all
from tidelog.coordinator.transaction.ending import Ended, EndTransaction, end
from tidelog.coordinator.transaction.machine import TransactionMachine
from tidelog.coordinator.transaction.partitions import Added, AddPartitions, add, verify
from tidelog.errors import ErrorCode
from tidelog.wire.messages.transactions.describe_transactions import DescribeTransactionsResponse
from tidelog.wire.messages.transactions.list_transactions import ListTransactionsResponse

__all__ = ["AddPartitions", "Added", "Describe", "EndTransaction", "Ended", "Init", "Inited", "ListAll", "Requests"]


class Requests:
    """The way from a request to the machines that answer it. `partitions` is the size of the transaction topic as the
    cluster knows it, 0 where it does not exist yet."""

    def __init__(self, config: BrokerConfig, shards: Shards[TransactionMachine]) -> None:
        self.config = config
        self.shards = shards
        self.gatherings = Gatherings()

    def __repr__(self) -> str:
        return f"<Requests to {self.shards!r}, {len(self.gatherings)} parts missing>"

    def handle(self, token: int, request: Any, partitions: int) -> None:
        _HANDLERS[type(request)](self, token, request, partitions)

    def partition(self, transactional_id: str, partitions: int) -> int:
        return partition_for(transactional_id, partitions or self.config.transaction_state_log_num_partitions)

    def reply(self, token: int, response: Any) -> None:
        self.shards.context.effects.append(effects.Reply(token, response))


def _init(requests: Requests, token: int, asked: Init, partitions: int) -> None:
    where = requests.partition(asked.transactional_id, partitions)
    requests.shards.execute(where, lambda machine: init(machine, asked, token, Inited), token, Inited)


def _add(requests: Requests, token: int, asked: AddPartitions, partitions: int) -> None:
    _add_one(requests, token, requests.partition(asked.transactional_id, partitions), asked)


def _add_all(requests: Requests, token: int, asked: list[AddPartitions], partitions: int) -> None:
    """Each transaction on its own; the answer is a list."""
    if not asked:
        requests.reply(token, [])
        return
    parts = requests.gatherings.open(token, len(asked), list)
    for part, one in zip(parts, asked, strict=True):
        _add_one(requests, part, requests.partition(one.transactional_id, partitions), one)


def _add_one(requests: Requests, token: int, where: int, asked: AddPartitions) -> None:
    if asked.verify_only:
        requests.shards.execute(where, lambda machine: verify(machine, asked), token, Added)
    else:
        requests.shards.execute(where, lambda machine: add(machine, asked, token, Added), token, Added)


def _end(requests: Requests, token: int, asked: EndTransaction, partitions: int) -> None:
    where = requests.partition(asked.transactional_id, partitions)
    requests.shards.execute(where, lambda machine: end(machine, asked), token, Ended)


def _describe(requests: Requests, token: int, asked: Describe, partitions: int) -> None:
    if not asked.transactional_ids:
        requests.reply(token, DescribeTransactionsResponse())
        return
    parts = requests.gatherings.open(
        token, len(asked.transactional_ids), lambda found: DescribeTransactionsResponse(transaction_states=list(found))
    )
    for part, transactional_id in zip(parts, asked.transactional_ids, strict=True):
        refuse = partial(described_error, transactional_id)
        if not transactional_id:
            requests.shards.context.effects.append(effects.Reply(part, refuse(ErrorCode.INVALID_REQUEST)))
            continue
        where = requests.partition(transactional_id, partitions)
        requests.shards.read(where, partial(_described, transactional_id), part, refuse)


def _described(transactional_id: str, machine: TransactionMachine) -> Any:
    return describe(machine, transactional_id)


def _list(requests: Requests, token: int, asked: ListAll, partitions: int) -> None:
    """The transactions of the partitions that are led here; a client asks every broker."""
    del partitions
    led = [shard.partition.partition for shard in requests.shards]
    if not led:
        requests.reply(token, ListTransactionsResponse())
        return
    parts = requests.gatherings.open(token, len(led), _listed)
    for part, where in zip(parts, led, strict=True):
        requests.shards.read(where, lambda machine: list_all(machine, asked), part, lambda code: code)


def _listed(parts: Sequence[Any]) -> ListTransactionsResponse:
    """A part is a list, or the code of a partition that could not answer."""
    for part in parts:
        if isinstance(part, ErrorCode) and part != ErrorCode.NOT_COORDINATOR:
            return ListTransactionsResponse(error_code=part)
    return ListTransactionsResponse(
        transaction_states=[state for part in parts if isinstance(part, list) for state in part]
    )


_HANDLERS: dict[type, Callable[[Requests, int, Any, int], None]] = {
    Init: _init,
    AddPartitions: _add,
    list: _add_all,
    EndTransaction: _end,
    Describe: _describe,
    ListAll: _list,
}
