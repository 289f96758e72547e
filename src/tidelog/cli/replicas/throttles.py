"""Throttles of reassignments (KIP-73): which replicas a move throttles, set with it and cleared when it is over."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import click

from tidelog.cli.cluster import reason
from tidelog.cli.options import Refused
from tidelog.cli.replicas.knowledge import Ongoing, racks
from tidelog.cli.words import listed, plural
from tidelog.client.admin import ANY
from tidelog.config.alter import Operation
from tidelog.config.resources import BROKER, TOPIC
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
FOLDER_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


class Path(NamedTuple):
    """From which brokers a partition is copied to which."""

    sources: Collection[int]
    destinations: Collection[int]


def paths(
    current: Mapping[TopicPartition, Ongoing],
    proposed: Mapping[TopicPartition, Sequence[int]],
    replicas: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Path]:
    """Of all moves: those under way, and those proposed."""
    found = {partition: Path(move.sources, move.adding) for partition, move in current.items()}
    for partition, target in proposed.items():
        sources = found[partition].sources if partition in found else replicas[partition]
        found[partition] = Path(sources, [broker for broker in target if broker not in sources])
    return found


def throttle(admin: Admin, moves: Mapping[TopicPartition, Path], rate: int) -> None:
    """Throttle these moves: sources as leaders, destinations as followers."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, partition), path in moves.items():
        leaders.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in path.sources)
        followers.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in path.destinations)
    for topic, sources in leaders.items():
        lists = {LEADER_REPLICAS: ",".join(sorted(sources)), FOLLOWER_REPLICAS: ",".join(sorted(followers[topic]))}
        alter(admin, TOPIC, topic, lists)
    brokers = {broker for path in moves.values() for broker in (*path.sources, *path.destinations)}
    limit_brokers(admin, brokers, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE), str(rate)))
    click.echo(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_folders(admin: Admin, brokers: Iterable[int], rate: int) -> None:
    """Throttle moves between folders."""
    limit_brokers(admin, brokers, {FOLDER_RATE: str(rate)})
    click.echo(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Clear the throttles of all brokers and of these topics: nobody knows any more from where they were moved."""
    brokers = {*racks(admin), *(broker for replicas in targets.values() for broker in replicas)}
    click.echo(f"Clearing broker-level throttles on broker{plural(brokers)} {listed(sorted(brokers))}")
    limit_brokers(admin, brokers, dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, FOLDER_RATE)))
    topics = sorted({topic for topic, _ in targets})
    click.echo(f"Clearing topic-level throttles on topic{plural(topics)} {listed(topics)}")
    for topic in topics:
        alter(admin, TOPIC, topic, dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)), missing_is_fine=True)


def limit_brokers(admin: Admin, brokers: Iterable[int], options: Mapping[str, str | None]) -> None:
    """A broker's own options are altered at that broker; one that is dead keeps what it has."""
    living = racks(admin)
    for broker in sorted(brokers):
        if broker in living:
            alter(admin, BROKER, str(broker), options, at=broker)


def alter(
    admin: Admin,
    kind: int,
    name: str,
    options: Mapping[str, str | None],
    *,
    at: int = ANY,
    missing_is_fine: bool = False,
) -> None:
    """Set these options, or delete those that are None."""
    configs = [
        AlterableConfig(name=option, config_operation=_operation(value), value=value)
        for option, value in options.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    result = admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), at).responses[0]
    if missing_is_fine and result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return
    if result.error_code:
        raise Refused(reason(result.error_code, result.error_message))


def _operation(value: str | None) -> Operation:
    return Operation.DELETE if value is None else Operation.SET
