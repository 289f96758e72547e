"""Throttles of reassignments (KIP-73): which replicas a move throttles; set when it starts, cleared when it ends."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import click

from tidelog.cli.admin_requests import alter_configs
from tidelog.cli.formatting import comma_list, plural_suffix
from tidelog.cli.replicas.replica_requests import broker_racks
from tidelog.config.alter import BROKER, TOPIC
from tidelog.config.quotas import FOLLOWER_REPLICAS, LEADER_REPLICAS, LISTS, RATES
from tidelog.errors import ApiError, ErrorCode
from tidelog.explain.core.evidence import OngoingReassignment
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class CopyPath(NamedTuple):
    """The brokers that a partition is copied from and to."""

    sources: Collection[int]
    destinations: Collection[int]


def copy_paths(
    current: Mapping[TopicPartition, OngoingReassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    replicas: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, CopyPath]:
    """The copy paths of all moves, in progress and proposed."""
    found = {partition: CopyPath(move.sources, move.adding) for partition, move in current.items()}
    for partition, target in proposed.items():
        sources = found[partition].sources if partition in found else replicas[partition]
        found[partition] = CopyPath(sources, [broker for broker in target if broker not in sources])
    return found


def throttle(admin: Admin, moves: Mapping[TopicPartition, CopyPath], rate: int) -> None:
    """Throttle these moves: sources as leaders, destinations as followers."""
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for (topic, partition), path in moves.items():
        leaders.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in path.sources)
        followers.setdefault(topic, set()).update(f"{partition}:{broker}" for broker in path.destinations)
    for topic, sources in leaders.items():
        lists = {LEADER_REPLICAS: ",".join(sorted(sources)), FOLLOWER_REPLICAS: ",".join(sorted(followers[topic]))}
        alter_configs(admin, TOPIC, topic, lists.items())
    brokers = {broker for path in moves.values() for broker in (*path.sources, *path.destinations)}
    set_broker_limits(admin, brokers, dict.fromkeys(RATES, str(rate)))
    click.echo(f"The inter-broker throttle limit was set to {rate} B/s")


def throttle_log_dirs(admin: Admin, brokers: Iterable[int], rate: int) -> None:
    """Throttle moves between log directories."""
    set_broker_limits(admin, brokers, {LOG_DIR_RATE: str(rate)})
    click.echo(f"The replica-alter-dir throttle limit was set to {rate} B/s")


def clear(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Clear the throttles of these topics and of all brokers, since the brokers they were moved from are unknown by
    now."""
    brokers = {*broker_racks(admin), *(broker for replicas in targets.values() for broker in replicas)}
    click.echo(f"Clearing broker-level throttles on broker{plural_suffix(brokers)} {comma_list(sorted(brokers))}")
    set_broker_limits(admin, brokers, dict.fromkeys((*RATES, LOG_DIR_RATE)))
    topics = sorted({topic for topic, _ in targets})
    click.echo(f"Clearing topic-level throttles on topic{plural_suffix(topics)} {comma_list(topics)}")
    for topic in topics:
        try:
            alter_configs(admin, TOPIC, topic, [(option, None) for option in LISTS])
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise


def set_broker_limits(admin: Admin, brokers: Iterable[int], options: Mapping[str, str | None]) -> None:
    """Set options of brokers, each at the broker itself; a dead broker keeps its options."""
    live = broker_racks(admin)
    for broker in sorted(brokers):
        if broker in live:
            alter_configs(admin, BROKER, str(broker), options.items(), broker=broker)
