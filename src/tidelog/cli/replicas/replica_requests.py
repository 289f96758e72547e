"""Requests of the commands on replicas: reassignments, racks, and the contents of log directories."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.cli.admin_requests import describe_topics, metadata
from tidelog.cli.options import CommandFailed
from tidelog.cli.replicas.json_files import TopicPartitionReplica
from tidelog.client.admin import CONTROLLER
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.explain.core.evidence import OngoingReassignment
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.cluster.log_dirs import DescribeLogDirsRequest, DescribeLogDirsResult
from tidelog.wire.messages.topics.reassignments import ListPartitionReassignmentsRequest


def ongoing(admin: Admin, timeout_ms: int | None = None) -> dict[TopicPartition, OngoingReassignment]:
    """All reassignments in progress, sorted; empty if the cluster does not support the request."""
    try:
        response = admin.ask(ListPartitionReassignmentsRequest(topics=None), CONTROLLER, timeout_ms=timeout_ms)
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return {}
        raise
    if response.error_code:
        raise ApiError(code_of(response.error_code), response.error_message)
    found = {
        TopicPartition(topic.name, each.partition_index): OngoingReassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in response.topics
        for each in topic.partitions
    }
    return dict(sorted(found.items()))


def broker_racks(admin: Admin) -> dict[int, str | None]:
    """The rack of each live broker."""
    return {broker.node_id: broker.rack for broker in metadata(admin, ()).brokers}


def replicas_of(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    """The replicas of all partitions of these topics; CommandFailed if a topic does not exist."""
    wanted = sorted(set(topics))
    described = describe_topics(admin, wanted)
    missing = set(wanted) - {topic.name for topic in described}
    if missing:
        raise CommandFailed(f"Topic {min(missing)} not found.")
    return {
        TopicPartition(topic.name, each.partition_index): list(each.replica_nodes)
        for topic in described
        for each in topic.partitions
    }


class ReplicaInLogDir(NamedTuple):
    """A replica in a log directory; `size` is in bytes, `lag` in offsets, and `is_future` means that it is a copy that
    will replace the current one."""

    log_dir: str
    size: int
    lag: int
    is_future: bool


def describe_log_dirs(admin: Admin, broker: int) -> list[DescribeLogDirsResult]:
    """The log directories of a broker; empty if it does not answer in time."""
    request = DescribeLogDirsRequest(topics=None)
    try:
        found: list[DescribeLogDirsResult] = admin.ask(request, broker, timeout_ms=5_000).results
    except ApiError:
        return []
    return found


def replicas_in_log_dirs(admin: Admin, brokers: Iterable[int]) -> dict[TopicPartitionReplica, list[ReplicaInLogDir]]:
    """All replicas in the log directories of these brokers; brokers that do not answer are left out."""
    found: dict[TopicPartitionReplica, list[ReplicaInLogDir]] = {}
    for broker in sorted(brokers):
        for result in describe_log_dirs(admin, broker):
            for topic in result.topics if result.error_code == ErrorCode.NONE else ():
                for each in topic.partitions:
                    replica = TopicPartitionReplica(broker, topic.name, each.partition_index)
                    holding = ReplicaInLogDir(result.log_dir, each.partition_size, each.offset_lag, each.is_future_key)
                    found.setdefault(replica, []).append(holding)
    return found


def log_dirs_of(admin: Admin, replicas: Mapping[TopicPartition, Iterable[int]]) -> dict[TopicPartitionReplica, str]:
    """The log directory of each replica whose broker is alive."""
    brokers = {broker for own in replicas.values() for broker in own} & broker_racks(admin).keys()
    return {
        replica: each.log_dir
        for replica, holdings in replicas_in_log_dirs(admin, brokers).items()
        if (replica.topic, replica.partition) in replicas
        for each in holdings
        if not each.is_future
    }


def size_of(holdings: Mapping[TopicPartitionReplica, list[ReplicaInLogDir]], replica: TopicPartitionReplica) -> int:
    return next((each.size for each in holdings.get(replica, ()) if not each.is_future), 0)
