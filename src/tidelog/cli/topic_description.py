"""What `tidelog topics --describe` prints: a line a topic and a line a partition, in kafka-topics' form."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tidelog.cli.cluster import MOST_PARTITIONS, describe_configs, describe_topics, metadata
from tidelog.cli.options import Refused
from tidelog.cli.replicas.knowledge import Ongoing, ongoing
from tidelog.cli.topics import FILTERS, matching
from tidelog.cli.words import listed
from tidelog.config.alter import TOPIC
from tidelog.model import NO_ID, TopicPartition, id_text
from tidelog.shell.transport import Admin

DEFAULT_SOURCE = 5


@dataclass(frozen=True, slots=True)
class Described:
    """One partition and what judging it needs."""

    topic: str
    partition: Any
    min_in_sync: int
    moving: Ongoing | None = None
    live: Collection[int] = ()

    @property
    def replication_factor(self) -> int:
        """Without the replicas that a reassignment is adding."""
        replicas = self.partition.replica_nodes
        return len(replicas) - (len(self.moving.adding) if self.moving else 0)

    def shows_under(self, filters: Collection[str]) -> bool:
        """Whether the partition is one of those that the given filters ask for; without any, it is."""
        in_sync, leader = len(self.partition.isr_nodes), self.partition.leader_id
        states = {
            "under-replicated-partitions": in_sync < self.replication_factor,
            "unavailable-partitions": leader not in self.live,
            "under-min-isr-partitions": leader < 0 or in_sync < self.min_in_sync,
            "at-min-isr-partitions": in_sync == self.min_in_sync,
        }
        return not filters or any(states[each] for each in filters)

    def line(self) -> str:
        partition = self.partition
        cells = [
            f"\tTopic: {self.topic}",
            f"Partition: {partition.partition_index}",
            f"Leader: {partition.leader_id if partition.leader_id >= 0 else 'none'}",
            f"Replicas: {listed(partition.replica_nodes)}",
            f"Isr: {listed(partition.isr_nodes)}",
        ]
        if self.moving:
            cells += [
                f"Adding Replicas: {listed(self.moving.adding)}",
                f"Removing Replicas: {listed(self.moving.removing)}",
            ]
        for title, name in (("Elr", "eligible_leader_replicas"), ("LastKnownElr", "last_known_elr")):
            replicas = getattr(partition, name, None)
            cells.append(f"{title}: {'N/A' if replicas is None else listed(replicas)}")
        return "\t".join(cells)


def describe(admin: Admin, given: Mapping[str, Any]) -> None:
    names = _names(admin, given)
    described = describe_topics(admin, names, given["partition_size_limit_per_response"] or MOST_PARTITIONS)
    configs = describe_configs(admin, TOPIC, names) if names else {}
    moving = ongoing(admin)
    live = {broker.node_id for broker in metadata(admin, []).brokers}
    overrides_only = given["topics_with_overrides"]
    filters = [each for each in FILTERS if given[each.replace("-", "_")] and each != "topics-with-overrides"]
    for topic in described:
        options = configs.get(topic.name, [])
        if not filters and (not overrides_only or overrides(options)):
            click.echo(topic_line(topic, options))
        if overrides_only:
            continue
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            row = Described(topic.name, partition, _min_in_sync(options), moving.get(name), live)
            if row.shows_under(filters):
                click.echo(row.line())


def _names(admin: Admin, given: Mapping[str, Any]) -> list[str]:
    if not given["topic_id"]:
        return matching(admin, dict(given))
    found = [topic.name or "" for topic in metadata(admin).topics if id_text(topic.topic_id) == given["topic_id"]]
    if not found and not given["if_exists"]:
        raise Refused(f"TopicId '{given['topic_id']}' does not exist as expected.")
    return found


def topic_line(topic: Any, options: Sequence[Any]) -> str:
    factor = len(topic.partitions[0].replica_nodes) if topic.partitions else 0
    cells = [f"Topic: {topic.name}"]
    if topic.topic_id != NO_ID:
        cells.append(f"TopicId: {id_text(topic.topic_id)}")
    cells += [
        f"PartitionCount: {len(topic.partitions)}",
        f"ReplicationFactor: {factor}",
        f"Configs: {','.join(overrides(options))}",
    ]
    return "\t".join(cells)


def overrides(options: Sequence[Any]) -> list[str]:
    """`name=value` of the options that do not have their default."""
    return [f"{each.name}={each.value}" for each in options if each.config_source not in (DEFAULT_SOURCE, -1)]


def _min_in_sync(options: Sequence[Any]) -> int:
    return next((int(each.value) for each in options if each.name == "min.insync.replicas"), 1)
