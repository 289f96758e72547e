"""The JSON files of Kafka's tools: reassignments, topics to move, partitions to elect, offsets to delete records
before.

A reader raises CommandFailed, with Kafka's message where Kafka has one, if the file is not valid.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidelog.cli.formatting import comma_list
from tidelog.cli.options import CommandFailed
from tidelog.model import TopicPartition

T = TypeVar("T")
ANY_LOG_DIR = "any"


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker; its string is Kafka's, topic-partition-broker."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class Reassignment(NamedTuple):
    """The contents of a reassignment file; `log_dirs` has only the replicas that name one."""

    replicas: dict[TopicPartition, list[int]]
    log_dirs: dict[TopicPartitionReplica, str]


def read_reassignment(path: str, *, strict: bool = False) -> Reassignment:
    """Read a reassignment file; with `strict`, which is for --execute, also check that it can be executed."""
    entries = _entries(path, "partitions", _reassignment_entry)
    if strict:
        _check_executable(entries)
    log_dirs = {
        TopicPartitionReplica(broker, *partition): log_dir
        for partition, replicas, named in entries
        for broker, log_dir in zip(replicas, named, strict=True)
        if log_dir != ANY_LOG_DIR
    }
    return Reassignment({partition: replicas for partition, replicas, _ in entries}, log_dirs)


def _reassignment_entry(entry: Mapping[str, Any]) -> tuple[TopicPartition, list[int], list[str]]:
    partition, replicas = _partition(entry), [_integer(broker) for broker in entry["replicas"]]
    log_dirs = [str(log_dir) for log_dir in entry.get("log_dirs", [ANY_LOG_DIR] * len(replicas))]
    if len(log_dirs) != len(replicas):
        raise CommandFailed(
            f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(log_dirs)}] "
            f"for partition {partition}"
        )
    return partition, replicas, log_dirs


def _check_executable(entries: Sequence[tuple[TopicPartition, list[int], list[str]]]) -> None:
    if not entries:
        raise CommandFailed("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas, _ in entries):
        raise CommandFailed("Partition replica list cannot be empty")
    if twice := duplicates(partition for partition, _, _ in entries):
        raise CommandFailed(f"Partition reassignment contains duplicate topic partitions: {comma_list(twice)}")
    several = [
        f"{partition} contains multiple entries for {comma_list(brokers)}"
        for partition, replicas, _ in entries
        if (brokers := duplicates(replicas))
    ]
    if several:
        raise CommandFailed(f"Partition replica lists may not contain duplicate entries: {'. '.join(several)}")


def read_topics(path: str) -> list[str]:
    """Read the file of --topics-to-move-json-file."""
    topics = _entries(path, "topics", lambda entry: str(entry["topic"]))
    if twice := duplicates(topics):
        raise CommandFailed(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_partitions(path: str) -> list[TopicPartition]:
    """Read the file of leader-election."""
    partitions = _entries(
        path,
        "partitions",
        _partition,
        missing_message='Replica election data is missing "partitions" field',
    )
    if twice := duplicates(partitions):
        raise CommandFailed(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return partitions


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """Read the file of delete-records."""
    found = _entries(
        path, "partitions", lambda e: (_partition(e), _integer(e["offset"])), missing_message="Missing partitions field"
    )
    if twice := duplicates(partition for partition, _ in found):
        raise CommandFailed(f"Offset json file contains duplicate topic partitions: {comma_list(twice)}")
    return dict(found)


def format_reassignment(
    replicas: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[TopicPartitionReplica, str] | None = None
) -> str:
    """The text of a reassignment file, as Kafka's tools print it; unknown log directories are 'any'."""
    known = log_dirs or {}
    entries = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(brokers),
            "log_dirs": [known.get(TopicPartitionReplica(b, topic, partition), ANY_LOG_DIR) for b in brokers],
        }
        for (topic, partition), brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))


def duplicates(items: Iterable[T]) -> list[T]:
    return [item for item, times in Counter(items).items() if times > 1]


def _partition(entry: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(str(entry["topic"]), _integer(entry["partition"]))


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _entries(path: str, name: str, read: Callable[[Mapping[str, Any]], T], *, missing_message: str = "") -> list[T]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandFailed(f"{path} is not valid JSON: {error}.") from None
    try:
        if (version := content.get("version", 1)) != 1:
            raise CommandFailed(f"Not supported version field value {version}")
        if missing_message and name not in content:
            raise CommandFailed(missing_message)
        return [read(entry) for entry in content.get(name, ())]
    except KeyError as error:
        raise CommandFailed(f"{path}: an entry of {name!r} has no {error}.") from None
    except (TypeError, AttributeError) as error:
        raise CommandFailed(f"{path} does not have the expected structure: {error}.") from None
