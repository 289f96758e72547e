"""What `tidelog topics` does, one function per action; --describe prints what kafka-topics prints."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tidelog.cli.admin_requests import (
    MAX_PARTITIONS_PER_RESPONSE,
    describe_configs,
    describe_error,
    describe_topics,
    metadata,
    topic_names,
)
from tidelog.cli.formatting import comma_list
from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas.replica_requests import ongoing
from tidelog.config.alter import TOPIC
from tidelog.errors import ErrorCode
from tidelog.explain.core.evidence import OngoingReassignment
from tidelog.model import NO_ID, TopicPartition, id_text
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

DEFAULT_SOURCE = 5
PARTITION_FILTERS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    """One partition, with what its line and the filters of --describe depend on."""

    topic: str
    partition: Any
    min_in_sync: int
    moving: OngoingReassignment | None = None
    live: Collection[int] = ()

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without those that a reassignment is adding."""
        replicas = self.partition.replica_nodes
        return len(replicas) - (len(self.moving.adding) if self.moving else 0)

    def matches_any(self, filters: Collection[str]) -> bool:
        """Whether the partition matches any of these filters; true if there are none."""
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
            f"Replicas: {comma_list(partition.replica_nodes)}",
            f"Isr: {comma_list(partition.isr_nodes)}",
        ]
        if self.moving:
            cells += [
                f"Adding Replicas: {comma_list(self.moving.adding)}",
                f"Removing Replicas: {comma_list(self.moving.removing)}",
            ]
        for title, name in (("Elr", "eligible_leader_replicas"), ("LastKnownElr", "last_known_elr")):
            replicas = getattr(partition, name, None)
            cells.append(f"{title}: {'N/A' if replicas is None else comma_list(replicas)}")
        return "\t".join(cells)


def describe(admin: Admin, given: Mapping[str, Any]) -> None:
    names = _topics_to_describe(admin, given)
    described = describe_topics(admin, names, given["partition_size_limit_per_response"] or MAX_PARTITIONS_PER_RESPONSE)
    configs = describe_configs(admin, TOPIC, names) if names else {}
    moving = ongoing(admin)
    live = {broker.node_id for broker in metadata(admin, []).brokers}
    overrides_only = given["topics_with_overrides"]
    filters = [each for each in PARTITION_FILTERS if given[each.replace("-", "_")]]
    for topic in described:
        options = configs.get(topic.name, [])
        if not filters and (not overrides_only or overrides(options)):
            click.echo(topic_line(topic, options))
        if overrides_only:
            continue
        for partition in topic.partitions:
            name = TopicPartition(topic.name, partition.partition_index)
            row = DescribedPartition(topic.name, partition, _min_in_sync(options), moving.get(name), live)
            if row.matches_any(filters):
                click.echo(row.line())


def _topics_to_describe(admin: Admin, given: Mapping[str, Any]) -> list[str]:
    if not given["topic_id"]:
        return matching_topics(admin, dict(given))
    found = [topic.name or "" for topic in metadata(admin).topics if id_text(topic.topic_id) == given["topic_id"]]
    if not found and not given["if_exists"]:
        raise CommandFailed(f"TopicId '{given['topic_id']}' does not exist as expected.")
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
    """`name=value` of the options that are set, neither default nor unknown."""
    return [f"{each.name}={each.value}" for each in options if each.config_source not in (DEFAULT_SOURCE, -1)]


def _min_in_sync(options: Sequence[Any]) -> int:
    return next((int(each.value) for each in options if each.name == "min.insync.replicas"), 1)


def matching_topics(admin: Any, given: dict[str, Any], *, must_exist: bool = True) -> list[str]:
    """The names that match --topic, sorted; CommandFailed if none does and --if-exists is not given."""
    wanted = given["topic"]
    found = sorted(
        name
        for name, is_internal in topic_names(admin).items()
        if not (is_internal and given["exclude_internal"]) and (wanted is None or _matches(wanted, name))
    )
    if wanted and not found and must_exist and not given["if_exists"]:
        raise CommandFailed(f"Topic '{wanted}' does not exist as expected.")
    return found


def _matches(wanted: str, name: str) -> bool:
    """Kafka's include list: a regular expression for the whole name, in which a comma means 'or'."""
    try:
        return re.fullmatch(wanted.strip("\"' ").replace(",", "|"), name) is not None
    except re.error as error:
        raise CommandFailed(f"--topic: {wanted!r} is not a valid regular expression: {error}.") from None


def _create(admin: Any, given: dict[str, Any]) -> None:
    name, assignment = given["topic"], given["replica_assignment"] or []
    if "." in name or "_" in name:
        click.echo(
            "WARNING: Topic names with a period ('.') or an underscore ('_') can collide in metric names. "
            "Use only one of the two.",
            err=True,
        )
    topic = CreatableTopic(
        name=name,
        num_partitions=given["partitions"] or -1,
        replication_factor=given["replication_factor"] or -1,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(assignment)],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in given["config"]],
    )
    result = admin.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics[0]
    if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and given["if_not_exists"]:
        return
    if result.error_code:
        raise CommandFailed(describe_error(result.error_code, result.error_message))
    click.echo(f"Created topic {name}.")


def _list(admin: Any, given: dict[str, Any]) -> None:
    for name in matching_topics(admin, given, must_exist=False):
        click.echo(name)


def _alter(admin: Any, given: dict[str, Any]) -> None:
    described = describe_topics(admin, matching_topics(admin, given))
    assignment = given["replica_assignment"]
    wanted = [
        CreatePartitionsTopic(
            name=topic.name,
            count=given["partitions"],
            assignments=assignment
            and [CreatePartitionsAssignment(broker_ids=ids) for ids in assignment[len(topic.partitions) :]],
        )
        for topic in described
    ]
    if wanted:
        for result in admin.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=30_000)).results:
            if result.error_code:
                raise CommandFailed(describe_error(result.error_code, result.error_message))


def _delete(admin: Any, given: dict[str, Any]) -> None:
    names = matching_topics(admin, given)
    if names:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=30_000
        )
        for result in admin.ask(request).responses:
            if result.error_code:
                raise CommandFailed(f"Topic {result.name}: {describe_error(result.error_code, result.error_message)}")


RUN = {"create": _create, "list": _list, "describe": describe, "alter": _alter, "delete": _delete}
