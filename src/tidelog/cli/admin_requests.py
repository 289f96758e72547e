"""Requests that several commands send to a cluster, with the blocking admin of `shell.transport`."""

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.cli.options import CommandFailed, file_options
from tidelog.client import properties
from tidelog.client.admin import ANY, alter_configs_request
from tidelog.client.options import AdminOptions
from tidelog.client.results import code_of
from tidelog.errors import RETRIABLE, ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.client_sockets import addresses
from tidelog.shell.transport import Admin
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.topics.metadata import (
    Cursor,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    TopicRequest,
)

CONNECT_TIMEOUT_S = 10
EARLIEST, LATEST = -2, -1
MAX_ATTEMPTS = 20
MAX_PARTITIONS_PER_RESPONSE = 2000
"""The default of Kafka's tool for partitions per DescribeTopicPartitions response."""

_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "The topic name is invalid; expected ASCII letters, digits, '.', '_' and '-'.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The client is not authorized to access the topic.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "The group is subscribed to the topic.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "The topic already exists.",
    ErrorCode.REQUEST_TIMED_OUT: "The cluster did not answer in time.",
    ErrorCode.NETWORK_EXCEPTION: "The connection to the cluster was lost.",
    ErrorCode.UNSUPPORTED_VERSION: "The cluster does not support this request.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation tokens need the broker option delegation.token.secret.key.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "No delegation token has this HMAC.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "The user is neither the owner of the token nor one of its renewers.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation tokens need a user who logs in, and not with a token.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "The user may not create tokens for this owner.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "The delegation token has expired.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Renewers must be users: User:NAME.",
    ErrorCode.OFFSET_OUT_OF_RANGE: "The offset is out of the partition's range.",
}


def describe_error(code: int, message: str | None = None) -> str:
    """A message for an error code, with Kafka's name of the code."""
    known = code_of(code)
    sentence = message or _MESSAGES.get(known)
    return f"{sentence.rstrip('.')} ({known.name})." if sentence else f"The cluster returned {known.name}."


def connect(
    bootstrap: str,
    command_config: str | None = None,
    *,
    timeout_ms: int = 30_000,
    setup_ms: int = 10_000,
    is_of_node: bool = False,
) -> Admin:
    """An admin client of the cluster; CommandFailed if no address accepts a connection. `setup_ms`: how long a
    connection may take before another broker is tried. With `is_of_node` the file may be a server.properties, whose
    other options are left out."""
    check_reachable(bootstrap)
    given = file_options(command_config)
    if is_of_node:
        given = properties.among_others(AdminOptions, given)
    options = {
        "default.api.timeout.ms": str(timeout_ms),
        "socket.connection.setup.timeout.ms": str(setup_ms),
        "client.id": "tidelog-cli",
        **given,
    }
    return Admin(bootstrap, **properties.keywords(AdminOptions, options))


def given_client_options(command_config: str | None) -> dict[str, Any]:
    """The options of every client that a file sets, for code that makes clients of several kinds."""
    return properties.explicit_keywords(file_options(command_config))


def check_reachable(bootstrap: str) -> None:
    """Raise CommandFailed, with the reason for each address, if none of them accepts a connection."""
    failures = []
    for host, port in addresses(bootstrap):
        try:
            socket.create_connection((host, port), CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise CommandFailed(f"No broker is reachable at {', '.join(failures)}.")


def metadata(admin: Admin, topics: Sequence[str] | None = None) -> MetadataResponse:
    """Metadata of these topics, or of all topics if `topics` is None. Never creates a topic."""
    topic_filter = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    response = admin.ask(MetadataRequest(topics=topic_filter, allow_auto_topic_creation=False), ANY)
    assert isinstance(response, MetadataResponse)
    if response.error_code:
        raise ApiError(code_of(response.error_code))
    return response


def topic_names(admin: Admin) -> dict[str, bool]:
    """Every topic, and whether it is internal."""
    return {topic.name or "": topic.is_internal for topic in metadata(admin).topics}


def describe_topics(admin: Admin, names: Sequence[str], limit: int = MAX_PARTITIONS_PER_RESPONSE) -> list[Any]:
    """DescribeTopicPartitionsResponseTopic of each existing topic, sorted by name; older clusters answer from
    Metadata."""
    if not names:
        return []
    try:
        found = _describe_pages(admin, sorted(names), limit)
    except ApiError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        found = {topic.name or "": topic for topic in metadata(admin, names).topics}
    for topic in found.values():
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return [found[name] for name in sorted(found) if not found[name].error_code]


def _describe_pages(admin: Admin, names: Sequence[str], limit: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    cursor = None
    while True:
        topics = [TopicRequest(name=name) for name in names]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
        response = admin.ask(request, ANY)
        for topic in response.topics:
            if topic.name in found:
                found[topic.name].partitions.extend(topic.partitions)
            else:
                found[topic.name] = topic
        if response.next_cursor is None:
            return found
        next_cursor = response.next_cursor
        cursor = Cursor(topic_name=next_cursor.topic_name, partition_index=next_cursor.partition_index)


def describe_configs(
    admin: Admin, kind: int, names: Iterable[str], *, broker: int = ANY, synonyms: bool = False
) -> dict[str, list[Any]]:
    """The options of resources, by name. A broker's own options are known only to that `broker`."""
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    response = admin.ask(DescribeConfigsRequest(resources=resources, include_synonyms=synonyms), broker)
    for result in response.results:
        if result.error_code:
            raise ApiError(code_of(result.error_code), result.error_message)
    return {result.resource_name: result.configs for result in response.results}


def alter_configs(
    admin: Admin, kind: int, name: str, options: Iterable[tuple[str, str | None]], *, broker: int = ANY
) -> None:
    """Set these options of one resource; None deletes an option. A broker's own options are altered at that
    `broker`."""
    (result,) = admin.ask(alter_configs_request(kind, name, options), broker).responses
    if result.error_code:
        raise ApiError(code_of(result.error_code), result.error_message)


class ListedOffset(NamedTuple):
    """The result of ListOffsets for one partition; `offset` is -1 if no record matches."""

    offset: int = -1
    timestamp: int = -1
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class _LeaderLookup:
    """Partitions by leader, and those without one."""

    by_leader: dict[int, list[TopicPartition]]
    leaderless: list[TopicPartition]


def list_offsets(
    admin: Admin, wanted: Mapping[TopicPartition, int], *, isolation: int = 0, attempts: int = MAX_ATTEMPTS
) -> dict[TopicPartition, ListedOffset]:
    """The offset of each partition at its timestamp (EARLIEST, LATEST, …), from the leaders.

    Retriable errors, such as a leader change, are retried up to `attempts` times.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    for attempt in range(attempts):
        missing = [partition for partition in wanted if not _is_final(found.get(partition))]
        if not missing:
            break
        if attempt:
            _pause()
        plan = _leaders(admin, missing)
        found.update(dict.fromkeys(plan.leaderless, ListedOffset(error=ErrorCode.LEADER_NOT_AVAILABLE)))
        for leader, partitions in plan.by_leader.items():
            found.update(
                list_offsets_on(admin, leader, {each: wanted[each] for each in partitions}, isolation=isolation)
            )
    return found


def _is_final(listed: ListedOffset | None) -> bool:
    """Whether the result needs no retry. An unknown topic is retriable for clients, which wait for its creation, but
    final for a tool."""
    return listed is not None and (
        listed.error not in RETRIABLE or listed.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )


def _pause() -> None:
    from time import sleep

    sleep(0.1)


def _leaders(admin: Admin, partitions: Iterable[TopicPartition]) -> _LeaderLookup:
    partitions = list(partitions)
    response = metadata(admin, sorted({partition.topic for partition in partitions}))
    leaders = {
        TopicPartition(topic.name or "", partition.partition_index): partition.leader_id
        for topic in response.topics
        for partition in topic.partitions
    }
    plan = _LeaderLookup({}, [])
    for partition in partitions:
        leader = leaders.get(partition, -1)
        if leader < 0:
            plan.leaderless.append(partition)
        else:
            plan.by_leader.setdefault(leader, []).append(partition)
    return plan


def list_offsets_on(
    admin: Admin,
    broker: int,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = 0,
    replica: int = -1,
    timeout_ms: int = 30_000,
    retries: bool = True,
) -> dict[TopicPartition, ListedOffset]:
    """ListOffsets on one broker, without a retry. With `replica` -2 followers answer too."""
    request = list_offsets_request(wanted, isolation=isolation, replica=replica, timeout_ms=timeout_ms)
    return listed_offsets(admin.ask(request, broker, timeout_ms=timeout_ms, retries=retries))


def list_offsets_request(
    wanted: Mapping[TopicPartition, int], *, isolation: int = 0, replica: int = -1, timeout_ms: int = 30_000
) -> ListOffsetsRequest:
    """ListOffsets of these partitions at their timestamps."""
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=replica,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=timeout_ms,
    )


def listed_offsets(response: Any) -> dict[TopicPartition, ListedOffset]:
    """The results in a ListOffsets response."""
    return {
        TopicPartition(topic.name, each.partition_index): ListedOffset(
            each.offset, each.timestamp, code_of(each.error_code)
        )
        for topic in response.topics
        for each in topic.partitions
    }
