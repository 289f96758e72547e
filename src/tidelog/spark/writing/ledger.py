"""The ledger: a compacted topic with one entry for each query, the last of its batches that must be committed.

The driver writes an entry in a transaction of its own, whose id is the query's: a driver that takes over that id ends
what an earlier one was writing, and fences it. So once it has read to the end, the entry it found is the last one, and
nobody else can change it.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

from tidelog.client.admin import ANY, Leader
from tidelog.client.results import code_of
from tidelog.client.sending.partitioner import partition_of_key
from tidelog.effects import CONTROLLER
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.client_sockets import now
from tidelog.shell.transport import Admin
from tidelog.spark.access import Access
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

FORMAT = 1


class State(Enum):
    """DECIDED: the transactions are to be committed, and some may be. ENDED: all are committed. VOID: none is, nor will
    be."""

    DECIDED = "decided"
    ENDED = "ended"
    VOID = "void"


class Transaction(NamedTuple):
    """An open transaction with everything that one task wrote; these fields are enough to end it. `first` has the first
    offset in each partition, -1 if no broker reported it; `version` is the transaction version when it began."""

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
        """Those of `others` that are not in the entry."""
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
    """The entry; ValueError if a newer Tidelog, or something else, wrote it."""
    content: Mapping[str, Any] = json.loads(value)
    if content.get("format") != FORMAT:
        raise ValueError(f"an entry of format {content.get('format')!r}, this is {FORMAT}: a newer Tidelog wrote it")
    listed = tuple(Transaction.from_json(one) for one in content["transactions"])
    return LedgerEntry(content["batch"], State(content["state"]), listed)


LEDGER = "__tidelog_spark_commits"
PARTITIONS = 16
REPLICAS = 3
MAX_ENTRY_BYTES = 8 * 1024 * 1024
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "16777216", "max.message.bytes": str(MAX_ENTRY_BYTES)}
_DURABLE = {**CONFIGS, "min.insync.replicas": "2"}
WRITING_TIMEOUT_MS = 10_000
"""How long a driver that died while writing can block readers."""
PATIENCE_S = 60.0
APPEARS_WITHIN_S = 20.0
"""The driver creates the ledger before it plans a batch; a task may see it a moment later."""
FETCH_WAIT_MS = 10
"""A reader at the end has a fetch in flight; its next request, for the next task, waits behind it."""
_TOPIC_RESOURCE = 2
_LATEST = -1


class Reader:
    """Reads one query's entry; records that were read once are not read again."""

    def __init__(self, access: Access, key: str) -> None:
        self.entry: LedgerEntry | None = None
        self._key = key.encode()
        self._consumer = access.consumer(
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        self._place: TopicPartition | None = None

    def newest(self, end: int | None = None, patience_s: float = PATIENCE_S) -> LedgerEntry | None:
        """Read up to offset `end`, or to the last stable offset; None if the query has no entry."""
        place = self.place
        if end is None:
            end = self._consumer.end_offsets([place])[place]
        until = now().mono + int(patience_s * 1000)
        while self._consumer.position(place) < end:
            for record in self._consumer.poll(0.05):
                if record.key == self._key:
                    self.entry = None if record.value is None else decoded(record.value)
            if now().mono > until:
                raise ApiError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{place} could not be read up to {end} in {patience_s:g} s: is another query's driver writing?",
                )
        return self.entry

    @property
    def place(self) -> TopicPartition:
        """The partition of the query's entry. ApiError if there is no ledger."""
        if self._place is None:
            count = len(self._consumer.partitions_of(LEDGER, APPEARS_WITHIN_S))
            self._place = TopicPartition(LEDGER, partition_of_key(self._key, count))
            self._consumer.assign([self._place])
            self._consumer.seek_to_beginning([self._place])
        return self._place

    def close(self) -> None:
        self._consumer.abandon()


class Ledger:
    """The entry of one query, held by its driver; earlier drivers are fenced."""

    def __init__(self, access: Access, key: str, admin: Admin) -> None:
        self.key = key
        self._admin = admin
        create(admin)
        self._producer = access.transactional(
            writer_id(key), transaction_timeout_ms=WRITING_TIMEOUT_MS, max_request_size=MAX_ENTRY_BYTES, linger_ms=0
        )
        self._reader = Reader(access, key)

    def read(self) -> LedgerEntry | None:
        place = self._reader.place
        return self._reader.newest(_end(self._admin, place))

    def write(self, entry: LedgerEntry | None) -> None:
        """The entry is committed when this returns; None deletes it. ApiError PRODUCER_FENCED if another driver took
        over; any other error leaves open whether it is committed, which a new `Ledger` finds out."""
        place = self._reader.place
        with self._producer.transaction():
            value = None if entry is None else entry.encoded()
            self._producer.send(LEDGER, value, key=self.key.encode(), partition=place.partition)

    def close(self) -> None:
        self._producer.abandon()
        self._reader.close()


def writer_id(key: str) -> str:
    """The transactional ID with which a query's driver writes its entries."""
    return f"{key}-driver"


def create(admin: Admin) -> None:
    """Ensure that the ledger exists and loses no entries. ApiError if its cleanup.policy is not compact."""
    brokers = len(admin.ask(MetadataRequest(topics=[]), ANY).brokers)
    configs = _DURABLE if brokers >= REPLICAS else CONFIGS
    topic = CreatableTopic(
        name=LEDGER,
        num_partitions=PARTITIONS,
        replication_factor=min(REPLICAS, brokers),
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )
    (result,) = admin.ask(CreateTopicsRequest(topics=[topic]), CONTROLLER).topics
    code = code_of(result.error_code)
    if code is ErrorCode.TOPIC_ALREADY_EXISTS:
        _check_policy(admin)
    elif code:
        raise ApiError(code, f"topic {LEDGER} cannot be created: {result.error_message}")


def _check_policy(admin: Admin) -> None:
    wanted = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=LEDGER, configuration_keys=["cleanup.policy"]
    )
    (result,) = admin.ask(DescribeConfigsRequest(resources=[wanted]), ANY).results
    found = [config.value for config in result.configs if config.name == "cleanup.policy"]
    if not result.error_code and found != ["compact"]:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"topic {LEDGER} has cleanup.policy {found}: entries would be lost; set it to compact",
        )


def _end(admin: Admin, place: TopicPartition) -> int:
    """The high watermark, regardless of open transactions."""
    wanted = ListOffsetsPartition(partition_index=place.partition, timestamp=_LATEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=place.topic, partitions=[wanted])])
    found = admin.ask(request, Leader(*place)).topics[0].partitions[0]
    code = code_of(found.error_code)
    if code:
        raise ApiError(code, f"the end of {place} is not known")
    return int(found.offset)
