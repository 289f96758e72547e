"""A source of Spark that returns the end offsets of partitions with each batch: `format("tidelog.ends")`.

An offset of this source holds the end offsets and when they were read, so Spark's checkpoint holds everything it
returned.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from tidelog.client.options import ClientOptions
from tidelog.spark.access import Access
from tidelog.spark.options import BOOTSTRAP, client_options

SCHEMA = "topic string, partition int, end bigint, at bigint"
"""`at` is in milliseconds since 1970."""
TOPICS = "topics"
Snapshot = dict[str, Any]
"""`{"at": 5, "ends": {"topic": {"0": 7}}}`."""


@dataclass
class EndsPartition(InputPartition):
    snapshot: Snapshot


class EndsSource(DataSource):
    """Options: kafka.…, and `topics`, a regular expression (default: all but internal topics)."""

    @classmethod
    def name(cls) -> str:
        return "tidelog.ends"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: Any) -> "EndsReader":  # noqa: ARG002, N802  Spark's signature
        given = {name.lower(): value for name, value in self.options.items()}
        client = client_options(ClientOptions, given, frozenset(), {})
        return EndsReader(Access(given[BOOTSTRAP], client), given.get(TOPICS, ".*"))


class EndsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Each batch reads the end offsets once."""

    def __init__(self, access: Access, topics: str) -> None:
        self._access = access
        self._topics = topics
        self._target: Snapshot | None = None

    def initialOffset(self) -> Snapshot:  # noqa: N802  Spark's name
        return {"at": 0, "ends": {}}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._target = look(self._access, self._topics)

    def latestOffset(self, start: Snapshot, limit: ReadLimit) -> Snapshot:  # noqa: ARG002, N802  Spark's name
        return self._target or look(self._access, self._topics)

    def reportLatestOffset(self) -> Snapshot | None:  # noqa: N802  Spark's name
        return None

    def partitions(self, start: Snapshot, end: Snapshot) -> Sequence[InputPartition]:
        return [EndsPartition(end)] if end["at"] > start["at"] else []

    def read(self, partition: Any) -> Iterator[Any]:
        if isinstance(partition, EndsPartition):
            yield from rows(partition.snapshot)

    def commit(self, end: Snapshot) -> None:
        """Nothing is kept outside of the checkpoint."""

    def stop(self) -> None:
        """Nothing is held."""


def rows(snapshot: Mapping[str, Any]) -> Iterator[tuple[str, int, int, int]]:
    for topic, ends in snapshot["ends"].items():
        for partition, end in ends.items():
            yield topic, int(partition), end, snapshot["at"]


def look(access: Access, topics: str) -> Snapshot:
    """The current end offsets of all partitions of the topics, for consumers of committed records."""
    from tidelog.wire.messages.topics.metadata import MetadataRequest

    with access.admin() as admin, access.consumer(isolation_level="read_committed") as consumer:
        found = admin.ask(MetadataRequest(topics=None)).topics
        places = [
            (topic.name, partition.partition_index)
            for topic in found
            if not topic.is_internal and not topic.error_code and re.fullmatch(topics, topic.name)
            for partition in topic.partitions
        ]
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), end in sorted(consumer.end_offsets(places).items()) if places else ():
            ends.setdefault(topic, {})[str(partition)] = end
    return {"at": time.time_ns() // 1_000_000, "ends": ends}
