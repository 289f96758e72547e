"""What the ledger says of a query: the newest of its batches that is to count, and that batch's transactions. Pure."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from tidelog.model import TopicPartition

FORMAT = 1


class State(Enum):
    """DECIDED: the transactions are to be committed, and some may be. ENDED: all are. VOID: none is, nor will be."""

    DECIDED = "decided"
    ENDED = "ended"
    VOID = "void"


class Transaction(NamedTuple):
    """An open transaction with all that one task wrote: who knows this can end it. `first` has the first offset in each
    partition, -1 where no broker told it; `version` is the cluster's transaction version when it began."""

    id: str
    producer_id: int
    epoch: int
    version: int
    first: dict[TopicPartition, int]

    @property
    def to_json(self) -> list[Any]:
        places = [[topic, partition, offset] for (topic, partition), offset in sorted(self.first.items())]
        return [self.id, self.producer_id, self.epoch, self.version, places]

    @classmethod
    def from_json(cls, value: list[Any]) -> "Transaction":
        name, producer_id, epoch, version, places = value
        first = {TopicPartition(topic, partition): offset for topic, partition, offset in places}
        return cls(name, producer_id, epoch, version, first)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One batch of a query."""

    batch: int
    state: State
    transactions: tuple[Transaction, ...]

    def now(self, state: State) -> "LedgerEntry":
        return replace(self, state=state)

    def without(self, others: Iterable[Transaction]) -> list[Transaction]:
        """Those of `others` that are not in it."""
        known = {(one.id, one.producer_id, one.epoch) for one in self.transactions}
        return [one for one in others if (one.id, one.producer_id, one.epoch) not in known]

    def encoded(self) -> bytes:
        content = {
            "format": FORMAT,
            "batch": self.batch,
            "state": self.state.value,
            "transactions": [one.to_json for one in self.transactions],
        }
        return json.dumps(content, separators=(",", ":")).encode()


def decoded(value: bytes) -> LedgerEntry:
    """ValueError for what a newer Tidelog, or something else, wrote."""
    content: Mapping[str, Any] = json.loads(value)
    if content.get("format") != FORMAT:
        raise ValueError(f"an entry of format {content.get('format')!r}, this is {FORMAT}: a newer Tidelog wrote it")
    listed = tuple(Transaction.from_json(one) for one in content["transactions"])
    return LedgerEntry(content["batch"], State(content["state"]), listed)
