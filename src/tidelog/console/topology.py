"""What the console knows of a cluster at one time, from Metadata, and what changed between two such views."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.console.diagnosis import BrokerEvent
from tidelog.model import TopicPartition
from tidelog.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

SEEN_BY_CONSOLE = -1
"""The broker of an event that the console concluded itself, from two views."""
MOST_LISTED = 200
"""How many partitions a list of troubles names."""


class Trouble(NamedTuple):
    """A partition without a leader (`offline`), or with fewer replicas in sync than it has."""

    partition: TopicPartition
    offline: bool
    missing: tuple[int, ...]
    internal: bool


@dataclass(slots=True)
class Topology:
    """The brokers and topics; `topics` are those of the response, sorted by name."""

    cluster_id: str = ""
    controller: int = -1
    brokers: dict[int, MetadataResponseBroker] = field(default_factory=dict)
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)
    partitions: int = 0
    replicas: int = 0
    offline: int = 0
    under_replicated: int = 0
    troubles: list[Trouble] = field(default_factory=list)
    leading: dict[int, int] = field(default_factory=dict)
    hosting: dict[int, int] = field(default_factory=dict)
    troubled_topics: dict[str, int] = field(default_factory=dict)
    """Partitions with trouble, by topic."""

    @classmethod
    def of(cls, response: MetadataResponse) -> "Topology":
        found = cls(response.cluster_id or "", response.controller_id)
        found.brokers = {each.node_id: each for each in sorted(response.brokers, key=lambda each: each.node_id)}
        found.topics = {each.name or "": each for each in sorted(response.topics, key=lambda each: each.name or "")}
        for topic in found.topics.values():
            topic.partitions.sort(key=lambda each: each.partition_index)
            for partition in topic.partitions:
                found._count(topic, partition)
        found.troubles = sorted(found.troubles, key=lambda each: (not each.offline, each.internal))[:MOST_LISTED]
        return found

    def _count(self, topic: MetadataResponseTopic, partition: MetadataResponsePartition) -> None:
        self.partitions += 1
        self.replicas += len(partition.replica_nodes)
        for replica in partition.replica_nodes:
            self.hosting[replica] = self.hosting.get(replica, 0) + 1
        if partition.leader_id >= 0:
            self.leading[partition.leader_id] = self.leading.get(partition.leader_id, 0) + 1
        if is_sound(partition):
            return
        offline = partition.leader_id < 0
        self.offline += offline
        self.under_replicated += not offline
        name = topic.name or ""
        self.troubled_topics[name] = self.troubled_topics.get(name, 0) + 1
        missing = tuple(each for each in partition.replica_nodes if each not in partition.isr_nodes)
        where = TopicPartition(name, partition.partition_index)
        self.troubles.append(Trouble(where, offline, missing, topic.is_internal))

    def partition(self, name: TopicPartition) -> MetadataResponsePartition | None:
        topic = self.topics.get(name.topic)
        return (
            next((each for each in topic.partitions if each.partition_index == name.partition), None) if topic else None
        )

    def all_partitions(self) -> Iterator[tuple[TopicPartition, MetadataResponsePartition]]:
        for name, topic in self.topics.items():
            for partition in topic.partitions:
                yield TopicPartition(name, partition.partition_index), partition

    @property
    def known_brokers(self) -> list[int]:
        """Brokers that are registered, and those that hold a replica but are not."""
        return sorted(self.brokers.keys() | self.hosting.keys())


def is_sound(partition: MetadataResponsePartition) -> bool:
    return partition.leader_id >= 0 and len(partition.isr_nodes) >= len(partition.replica_nodes)


def events_between(before: Topology, after: Topology, wall_ms: int) -> Iterator[BrokerEvent]:
    """What happened between two views, as far as they show it, in the form of a broker's own events."""

    def event(kind: str, **fields: Any) -> BrokerEvent:
        return BrokerEvent(wall_ms, SEEN_BY_CONSOLE, 0, kind, "info", fields)

    for broker in before.brokers.keys() - after.brokers.keys():
        yield event("broker.gone", broker=broker)
    for broker in after.brokers.keys() - before.brokers.keys():
        yield event("broker.registered", broker=broker, epoch="?")
    for name, topic in after.topics.items():
        earlier = before.topics.get(name)
        if earlier is None or earlier.topic_id != topic.topic_id:
            continue
        old = {each.partition_index: each for each in earlier.partitions}
        for partition in topic.partitions:
            known = old.get(partition.partition_index)
            if known is not None:
                yield from _changes(name, known, partition, event)


def _changes(
    topic: str, old: MetadataResponsePartition, new: MetadataResponsePartition, event: Any
) -> Iterator[BrokerEvent]:
    where = {"topic": topic, "partition": new.partition_index}
    isr: Mapping[str, Any] = {"previous_isr": old.isr_nodes, "isr": new.isr_nodes, "why": "seen by the console"}
    if (old.leader_id, old.leader_epoch) != (new.leader_id, new.leader_epoch):
        yield event(
            "partition.elected",
            **where,
            **isr,
            leader=new.leader_id,
            previous_leader=old.leader_id,
            leader_epoch=new.leader_epoch,
        )
    elif sorted(old.isr_nodes) != sorted(new.isr_nodes):
        yield event("isr.change", **where, **isr)
