"""Requests about consumer groups and their offsets."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidelog.cli.admin_requests import describe_error, metadata
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import Coordinator
from tidelog.client.group.described import GroupState, classic_group, consumer_group
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.groups.group_admin import DescribeGroupsRequest, ListGroupsRequest

NEWEST_VERSION_BY_NAME = 9
"""The newest version of OffsetFetch and OffsetCommit with topic names; later versions have topic IDs."""
PLAIN_PROTOCOLS = ("", "consumer")
"""Protocol types of consumer groups; groups of Connect and others are not listed."""


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1


def describe_group(admin: Admin, name: str) -> GroupState:
    """The group; CommandFailed if it does not exist or its coordinator returns an error."""
    found = admin.ask(DescribeGroupsRequest(groups=[name]), Coordinator(name)).groups[0]
    missing = found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not found.error_code and found.group_state == "Dead")
    if missing:
        newer = _describe_consumer_group(admin, name)
        if newer is not None:
            return newer
        raise CommandFailed(f"Group {name} not found (GROUP_ID_NOT_FOUND).")
    if found.error_code:
        raise CommandFailed(f"Group {name}: {describe_error(found.error_code, found.error_message)}")
    return classic_group(found)


def _describe_consumer_group(admin: Admin, name: str) -> GroupState | None:
    """The group, if it is one of KIP-848; else None."""
    try:
        found = admin.ask(ConsumerGroupDescribeRequest(group_ids=[name]), Coordinator(name)).groups[0]
    except ApiError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return None
        raise
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    if found.error_code:
        raise CommandFailed(f"Group {name}: {describe_error(found.error_code, found.error_message)}")
    return consumer_group(found)


def committed_offsets(admin: Admin, name: str) -> dict[TopicPartition, CommittedOffset]:
    """The committed offsets of the group, for all partitions that have one."""
    group = OffsetFetchRequestGroup(group_id=name, topics=None)
    request = OffsetFetchRequest(group_id=name, topics=None, groups=[group], require_stable=True)
    response = admin.ask(request, Coordinator(name), newest=NEWEST_VERSION_BY_NAME)
    result = response.groups[0] if response.groups else response
    if result.error_code:
        raise ApiError(code_of(result.error_code))
    return {
        TopicPartition(topic.name, each.partition_index): CommittedOffset(
            each.committed_offset, each.committed_leader_epoch
        )
        for topic in result.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def coordinator_of(admin: Admin, name: str) -> tuple[str, int]:
    """(`host:port`, broker id) of the group's coordinator."""
    response = admin.ask(FindCoordinatorRequest(key=name, key_type=0, coordinator_keys=[name]), -1)
    found = response.coordinators[0] if response.coordinators else response
    if found.error_code:
        raise ApiError(code_of(found.error_code))
    return f"{found.host}:{found.port}", found.node_id


def compact_assignment(partitions: Iterable[TopicPartition]) -> str:
    """An assignment as `a:0,1;b:2`."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return ";".join(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())


def all_groups(admin: Admin, states: list[str] | None = None, types: list[str] | None = None) -> list[Any]:
    """ListedGroup of every consumer group on every broker, sorted by name."""
    request = ListGroupsRequest(states_filter=states or [], types_filter=types or [])
    found = {}
    for broker in metadata(admin, []).brokers:
        response = admin.ask(request, broker.node_id)
        if response.error_code:
            raise CommandFailed(f"Broker {broker.node_id}: {describe_error(response.error_code)}")
        found.update({group.group_id: group for group in response.groups if group.protocol_type in PLAIN_PROTOCOLS})
    return [found[name] for name in sorted(found)]
