"""The JSON files of Kafka's tools: partitions with their replicas, topics to move, partitions to elect or to cut.

Each reader says in one sentence what is wrong with a file.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from tidelog.cli.formatting import listed
from tidelog.cli.options import Refused
from tidelog.model import TopicPartition

T = TypeVar("T")
ANY_FOLDER = "any"


class Replica(NamedTuple):
    """A replica of a partition on a broker, as Kafka writes it: topic-partition-broker."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class Wishes(NamedTuple):
    """What a reassignment file asks for; `folders` of the replicas that name one."""

    replicas: dict[TopicPartition, list[int]]
    folders: dict[Replica, str]


def read_wishes(path: str, *, strict: bool = False) -> Wishes:
    """A reassignment file. `strict`: it is about to be carried out, and must ask for something that can be done."""
    entries = _entries(path, "partitions", _wish)
    if strict:
        _check(entries)
    folders = {
        Replica(broker, *partition): folder
        for partition, replicas, named in entries
        for broker, folder in zip(replicas, named, strict=True)
        if folder != ANY_FOLDER
    }
    return Wishes({partition: replicas for partition, replicas, _ in entries}, folders)


def _wish(entry: Mapping[str, Any]) -> tuple[TopicPartition, list[int], list[str]]:
    partition, replicas = _partition(entry), [_integer(broker) for broker in entry["replicas"]]
    folders = [str(folder) for folder in entry.get("log_dirs", [ANY_FOLDER] * len(replicas))]
    if len(folders) != len(replicas):
        raise Refused(
            f"Size of replicas list {replicas} is different from size of log dirs list [{', '.join(folders)}] "
            f"for partition {partition}"
        )
    return partition, replicas, folders


def _check(entries: Sequence[tuple[TopicPartition, list[int], list[str]]]) -> None:
    if not entries:
        raise Refused("Partition reassignment list cannot be empty")
    if any(not replicas for _, replicas, _ in entries):
        raise Refused("Partition replica list cannot be empty")
    if twice := duplicates(partition for partition, _, _ in entries):
        raise Refused(f"Partition reassignment contains duplicate topic partitions: {listed(twice)}")
    several = [
        f"{partition} contains multiple entries for {listed(brokers)}"
        for partition, replicas, _ in entries
        if (brokers := duplicates(replicas))
    ]
    if several:
        raise Refused(f"Partition replica lists may not contain duplicate entries: {'. '.join(several)}")


def read_topics(path: str) -> list[str]:
    """The file of --topics-to-move-json-file."""
    topics = _entries(path, "topics", lambda entry: str(entry["topic"]))
    if twice := duplicates(topics):
        raise Refused(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_partitions(path: str) -> list[TopicPartition]:
    """The file of leader-election."""
    partitions = _entries(path, "partitions", _partition, needed='Replica election data is missing "partitions" field')
    if twice := duplicates(partitions):
        raise Refused(f"Replica election data contains duplicate partitions: [{', '.join(map(str, twice))}]")
    return partitions


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The file of delete-records."""
    found = _entries(
        path, "partitions", lambda e: (_partition(e), _integer(e["offset"])), needed="Missing partitions field"
    )
    if twice := duplicates(partition for partition, _ in found):
        raise Refused(f"Offset json file contains duplicate topic partitions: {listed(twice)}")
    return dict(found)


def format_wishes(
    replicas: Mapping[TopicPartition, Sequence[int]], folders: Mapping[Replica, str] | None = None
) -> str:
    """A reassignment file, as Kafka's tools print it; the folders of replicas where they are known."""
    known = folders or {}
    entries = [
        {
            "topic": topic,
            "partition": partition,
            "replicas": list(replicas[topic, partition]),  # type: ignore[index]
            "log_dirs": [known.get(Replica(b, topic, partition), ANY_FOLDER) for b in replicas[topic, partition]],  # type: ignore[index]
        }
        for topic, partition in sorted(replicas)
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


def _entries(path: str, name: str, read: Callable[[Mapping[str, Any]], T], *, needed: str = "") -> list[T]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise Refused(f"{path} is not valid JSON: {error}.") from None
    try:
        if (version := content.get("version", 1)) != 1:
            raise Refused(f"Not supported version field value {version}")
        if needed and name not in content:
            raise Refused(needed)
        return [read(entry) for entry in content.get(name, ())]
    except KeyError as error:
        raise Refused(f"{path}: an entry of {name!r} has no {error}.") from None
    except (TypeError, AttributeError) as error:
        raise Refused(f"{path} is not of the form that is needed: {error}.") from None
