"""The options of a read, named as those of Spark's own connector, checked before anything is read."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.client.options import ConsumerOptions
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.spark import options as given
from tidelog.spark.access import Access
from tidelog.spark.options import BOOTSTRAP, BadOption
from tidelog.spark.reading.limits import Limit, check_batch, limit
from tidelog.spark.reading.topics import STRATEGIES, ChosenTopics, chosen

_log = logging.getLogger(__name__)

COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""All columns with their Spark types; all are nullable, as in the official connector."""

STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
KNOWN = frozenset(
    (
        *STRATEGIES,
        *STREAM_ONLY,
        *BATCH_ONLY,
        BOOTSTRAP,
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "minPartitions",
        "maxRecordsPerPartition",
        "groupIdPrefix",
        "includeHeaders",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "commitGroup",
        "columns",
    )
)
FORBIDDEN = {
    "auto.offset.reset": "say with option 'startingOffsets' where a new query starts; a query that runs keeps its place"
    " itself, so that nothing is missed when topics or partitions are added",
    "key.deserializer": "keys are read as bytes; turn them into what they mean with DataFrame operations",
    "value.deserializer": "values are read as bytes; turn them into what they mean with DataFrame operations",
    "enable.auto.commit": "Spark's checkpoint keeps the offsets; option 'commitGroup' shows them to lag tools",
    "interceptor.classes": "interceptors could change what is read",
}
_CONSUMERS = frozenset({"group.protocol", "group.remote.assignor", "share.acknowledgement.mode", "share.acquire.mode"})
"""Options of Java's consumer about groups, of which a query joins none."""
FETCHES = {"kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024), "kafka.fetch.max.wait.ms": "10"}
"""Decoding is faster with more records at once; since the data exists, nothing waits for it."""


@dataclass(frozen=True)
class ReadOptions:
    """Checked options. Times are milliseconds; None means not given."""

    bootstrap: str
    client: ConsumerOptions
    chosen: ChosenTopics
    starting: Limit
    ending: Limit
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records: int | None
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    poll_ms: int
    tries: int
    retry_ms: int
    commit_group: str | None

    @property
    def access(self) -> Access:
        """For lookups that a consumer does not make."""
        return Access.of(self.bootstrap, self.client)

    @classmethod
    def of(cls, options: Mapping[str, str], *, streaming: bool | None = None) -> "ReadOptions":
        """BadOption for a missing, unknown, invalid or conflicting option. `streaming` is None while it is unknown,
        when Spark requests the schema."""
        known = given.lowered(options, KNOWN)
        picked = chosen(known)
        bootstrap = given.bootstrap_of(known, "a read")
        found = cls(
            bootstrap=bootstrap,
            client=_client(known, streaming=bool(streaming)),
            chosen=picked,
            starting=limit(known, "starting", LATEST if streaming else EARLIEST),
            ending=limit(known, "ending", LATEST),
            columns=_columns(known),
            fail_on_data_loss=given.value(known, "failOnDataLoss", given.boolean, default=True),
            min_partitions=given.value(known, "minPartitions", given.number(1)),
            max_records=given.value(known, "maxRecordsPerPartition", given.number(1)),
            max_offsets=given.value(known, "maxOffsetsPerTrigger", given.number(1)),
            min_offsets=given.value(known, "minOffsetsPerTrigger", given.number(1)),
            max_delay_ms=given.value(known, "maxTriggerDelay", given.duration_ms, 15 * 60_000),
            poll_ms=given.value(known, "kafkaConsumer.pollTimeoutMs", given.number(1), 120_000),
            tries=given.value(known, "fetchOffset.numRetries", given.number(1), 3),
            retry_ms=given.value(known, "fetchOffset.retryIntervalMs", given.number(0), 1_000),
            commit_group=given.value(known, "commitGroup", _group),
        )
        found.check(known, streaming=streaming)
        return found

    def check(self, known: Mapping[str, str], *, streaming: bool | None) -> None:
        """BadOption for options that conflict."""
        if self.max_offsets is not None and self.min_offsets is not None and self.min_offsets > self.max_offsets:
            raise BadOption(
                f"option 'minOffsetsPerTrigger' ({self.min_offsets}) is higher than 'maxOffsetsPerTrigger'"
                f" ({self.max_offsets})"
            )
        if streaming:
            if late := [name for name in BATCH_ONLY if name.lower() in known]:
                raise BadOption(f"option {late[0]!r} is not valid in streaming queries, which have no end")
        elif streaming is False:
            check_batch(self.starting, self.ending)
            if self.commit_group is not None:
                raise BadOption(
                    "option 'commitGroup' is for streaming queries; a batch finishes without telling the source"
                )
            for name in STREAM_ONLY:
                if name.lower() in known:
                    _log.warning("option %s is ignored in batch queries", name)


def _columns(known: Mapping[str, str]) -> tuple[str, ...]:
    headers = given.value(known, "includeHeaders", given.boolean, default=False)
    wanted = given.value(known, "columns", given.names)
    if wanted is None:
        return tuple(name for name in COLUMNS if headers or name != "headers")
    by_small = {name.lower(): name for name in COLUMNS}
    found = tuple(by_small.get(name.lower(), name) for name in wanted)
    if odd := [name for name in found if name not in COLUMNS]:
        raise BadOption(f"option 'columns': there is no column {odd[0]!r}; there are {', '.join(COLUMNS)}")
    if len(set(found)) < len(found):
        raise BadOption(f"option 'columns' names a column twice: {known['columns']!r}")
    if headers and "headers" not in found:
        raise BadOption("options 'includeHeaders' and 'columns' disagree: the first wants headers, the second does not")
    return found


def _group(name: str, text: str) -> str:
    if not text.strip():
        raise BadOption(f"option {name!r} is the name of a group, not {text!r}")
    return text.strip()


def _client(known: Mapping[str, str], *, streaming: bool) -> ConsumerOptions:
    """The client's options; brokers see it under the name of a group that it does not join."""
    kept = {**FETCHES, **known}
    group = kept.pop("kafka.group.id", None)
    prefix = known.get("groupidprefix", "spark-kafka-source" if streaming else "spark-kafka-relation")
    if group is not None and "groupidprefix" in known:
        _log.warning("option groupIdPrefix is ignored, as kafka.group.id is given")
    kept.setdefault("kafka.client.id", f"consumer-{group or prefix}")
    kept["kafka.allow.auto.create.topics"] = "false"
    found = given.client_options(ConsumerOptions, kept, _CONSUMERS, FORBIDDEN)
    if found.isolation_level not in ("read_committed", "read_uncommitted"):
        raise BadOption(
            f"option 'kafka.isolation.level' is read_committed or read_uncommitted, not {found.isolation_level!r}"
        )
    return found
