"""The groups' offsets in the source cluster, as commits in the target cluster.

Offsets only move forward, and only while the group has no members in the target cluster: once it has moved there, its
own commits count.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

from tidelog.client.admin import Coordinator
from tidelog.client.results import ConsumerRecord
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.client_sockets import now
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.access import Access
from tidelog.wire.messages.cluster.brokers import DescribeClusterRequest
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tidelog.wire.messages.groups.group_admin import ListGroupsRequest

OFFSET, TIME = "tidelog.mirror.offset", "tidelog.mirror.timestamp"
"""Headers of a copy: decimal numbers, the second in milliseconds."""
PATIENCE_S = 30.0
LOOK_S = 0.05
"""A poll that only passes a gap returns nothing and takes all the time it is given."""


class NoCopy(Exception):
    """A mirrored topic has a record that the mirror did not write."""


def home_offset(record: ConsumerRecord) -> int:
    for name, value in reversed(record.headers):
        if name == OFFSET and value is not None:
            return int(value)
    raise NoCopy(
        f"{record.topic}-{record.partition} has a record at {record.offset} without the header {OFFSET}: "
        "write nothing else to a mirrored topic, or give option 'prefix'"
    )


class CopiedOffsets:
    """Looks up offsets in the copy with one consumer, which reads only committed records."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def of(self, place: TopicPartition, home: int) -> int:
        """The offset of the first copy whose source offset is `home` or higher; the end if there is none yet."""
        low = self._consumer.beginning_offsets([place])[place]
        end = high = self._consumer.end_offsets([place])[place]
        self._consumer.assign([place])
        while low < high:
            middle = (low + high) // 2
            found = self._first_from(place, middle, end)
            if found is None or home_offset(found) >= home:
                high = middle
            else:
                low = found.offset + 1
        record = self._first_from(place, low, end)
        return end if record is None else record.offset

    def _first_from(self, place: TopicPartition, offset: int, end: int) -> ConsumerRecord | None:
        """The record at the offset, or after a gap; None if only gaps follow. ApiError if it cannot be read."""
        self._consumer.seek(place, offset)
        until = now().mono + int(PATIENCE_S * 1000)
        while self._consumer.position(place) < end:
            found = self._consumer.poll(LOOK_S, 1)
            if found:
                return found[0] if found[0].offset < end else None
            if now().mono > until:
                raise ApiError(ErrorCode.REQUEST_TIMED_OUT, f"{place} cannot be read at {offset} in {PATIENCE_S:g} s")
        return None


BY_NAME_UNTIL = 9
"""The newest version of both requests that has topic names; later ones need IDs."""
NO_MEMBER = -1
Offsets = dict[TopicPartition, int]


class Translated(NamedTuple):
    group: str
    place: TopicPartition
    """In the target cluster."""
    home: int
    offset: int


def translate(home: Access, away: Access, topics: Mapping[str, str], groups: str) -> list[Translated]:
    """Update every group whose name matches; returns what was committed. `topics` maps source topics to their
    copies."""
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
    """Returns whether the group accepted them; a group with members does not."""
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
