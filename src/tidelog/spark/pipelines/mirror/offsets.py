"""What groups have committed at home, as commits on the other side. They only move forward, and only while the group
has no members there: once it has moved over, it is its own master."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from tidelog.client.admin import Coordinator
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.spark.access import Access
from tidelog.spark.pipelines.mirror.copied_offsets import CopiedOffsets
from tidelog.wire.messages.cluster.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.groups.list_groups import ListGroupsRequest
from tidelog.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

BY_NAME_UNTIL = 9
"""The newest version of both requests that names topics; later ones need their ids."""
NO_MEMBER = -1
Offsets = dict[TopicPartition, int]


class Translated(NamedTuple):
    group: str
    place: TopicPartition
    """On the other side."""
    home: int
    offset: int


def translate(home: Access, away: Access, topics: Mapping[str, str], groups: str) -> list[Translated]:
    """Bring every group whose name matches up to date; what was committed. `topics`: those at home → their copies."""
    with ExitStack() as stack:
        here = stack.enter_context(home.admin())
        there = stack.enter_context(away.admin())
        consumer = stack.enter_context(away.consumer(isolation_level="read_committed"))
        places = CopiedOffsets(consumer)
        names = [name for name in _groups(here) if re.fullmatch(groups, name)]
        return [each for name in names for each in _translate(here, there, places, topics, name)]


def _translate(
    here: Admin, there: Admin, places: CopiedOffsets, topics: Mapping[str, str], group: str
) -> list[Translated]:
    wanted = {place: offset for place, offset in committed(here, group).items() if place.topic in topics}
    before = committed(there, group) if wanted else {}
    found = []
    for (topic, partition), offset in sorted(wanted.items()):
        place = TopicPartition(topics[topic], partition)
        translated = places.of(place, offset)
        if translated > before.get(place, -1):
            found.append(Translated(group, place, offset, translated))
    return found if found and _commit(there, group, {each.place: each.offset for each in found}) else []


def _groups(admin: Admin) -> Iterator[str]:
    for broker in admin.ask(DescribeClusterRequest()).brokers:
        for group in admin.ask(ListGroupsRequest(), broker.broker_id).groups:
            if group.protocol_type in ("", "consumer"):
                yield group.group_id


def committed(admin: Admin, group: str) -> Offsets:
    wanted = OffsetFetchRequestGroup(group_id=group, topics=None)
    request = OffsetFetchRequest(group_id=group, topics=None, groups=[wanted], require_stable=True)
    response = admin.ask(request, Coordinator(group), newest=BY_NAME_UNTIL)
    answer = response.groups[0] if response.groups else response
    if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return {}
    if answer.error_code:
        raise ApiError(ErrorCode(answer.error_code), f"group {group}")
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _commit(admin: Admin, group: str, offsets: Offsets) -> bool:
    """Whether the group took them; not where it has members."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        one = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata="mirrored"
        )
        topics.setdefault(topic, []).append(one)
    listed = [OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=NO_MEMBER, member_id="", topics=listed)
    answer = admin.ask(request, Coordinator(group), newest=BY_NAME_UNTIL)
    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
    faults = codes - {0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION}
    if faults:
        raise ApiError(ErrorCode(min(faults)), f"offsets of group {group} were not committed")
    return codes == {0}
