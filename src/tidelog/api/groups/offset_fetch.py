"""OffsetFetch (key 9). Before version 8 a request is for one group, and its answer is flat."""

from collections.abc import Iterable
from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.group_requests import submit
from tidelog.controller.image import ClusterImage
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.slices import SLICE, Sliced, made_of
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_CODE_VERSION = 2
GROUPS_VERSION = 8
TOPIC_ID_VERSION = 10
NO_OFFSET = -1

_RequestedGroup = tuple[bool, list[OffsetFetchResponseTopics]]
"""Of a group: whether the request names topics, and those among them that are refused."""


def handle(request: OffsetFetchRequest, context: Context) -> Pending:
    if context.version < GROUPS_VERSION:
        group = _as_group(request)
        requested = OffsetFetchRequest(groups=[group], require_stable=request.require_stable)
        return submit(requested, context, partial(_flat, context.version, group))
    if context.version < TOPIC_ID_VERSION:
        return submit(request, context)
    image = context.broker.image
    topics = [(group.topics is not None, _take_unknown(group, image)) for group in request.groups]
    return submit(request, context, partial(_with_ids, image, topics))


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
    )


def _flat(
    version: int, requested: OffsetFetchRequestGroup, response: OffsetFetchResponse
) -> Sliced[OffsetFetchResponse]:
    """The one group's answer; where the version has no place for its code, every partition gets it."""
    group = response.groups[0]
    if version < GROUP_CODE_VERSION and group.error_code:
        code = ErrorCode(group.error_code)
        refused = [_refused(topic, topic.partition_indexes, code) for topic in requested.topics or []]
        return OffsetFetchResponse(topics=[flat_topic(topic) for topic in refused])
    topics = []
    partitions = 0
    for topic in group.topics:
        topics.append(flat_topic(topic))
        partitions += len(topic.partitions)
        if partitions >= SLICE:
            partitions = 0
            yield
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def flat_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=partition.partition_index,
            committed_offset=partition.committed_offset,
            committed_leader_epoch=partition.committed_leader_epoch,
            metadata=partition.metadata,
            error_code=partition.error_code,
        )
        for partition in topic.partitions
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def _take_unknown(group: OffsetFetchRequestGroup, image: ClusterImage) -> list[OffsetFetchResponseTopics]:
    """Put names to the ids of the group's topics; those that no topic has are taken out and refused."""
    if group.topics is None:
        return []
    for topic in group.topics:
        topic.name = image.topic_names.get(topic.topic_id, "")
    refused = [
        _refused(topic, topic.partition_indexes, ErrorCode.UNKNOWN_TOPIC_ID) for topic in group.topics if not topic.name
    ]
    group.topics = [topic for topic in group.topics if topic.name]
    return refused


def _refused(
    topic: OffsetFetchRequestTopics | OffsetFetchResponseTopics, indexes: Iterable[int], code: ErrorCode
) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code)
        for index in indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def refused_group(group_id: str, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=code)


def refused_topic(
    topic: OffsetFetchRequestTopics | OffsetFetchRequestTopic, code: ErrorCode
) -> OffsetFetchResponseTopics:
    refused = _refused(OffsetFetchResponseTopics(name=topic.name), topic.partition_indexes, code)
    refused.topic_id = topic.topic_id if isinstance(topic, OffsetFetchRequestTopics) else NO_ID
    return refused


def _with_ids(
    image: ClusterImage, requested: list[_RequestedGroup], response: OffsetFetchResponse
) -> Sliced[OffsetFetchResponse]:
    for group, (names_topics, refused) in zip(response.groups, requested, strict=True):
        group.topics = yield from made_of(group.topics, partial(_judged, image, names_topics))
        if not group.error_code:
            group.topics += refused
    return response


def _judged(
    image: ClusterImage, names_topics: bool, topic: OffsetFetchResponseTopics
) -> OffsetFetchResponseTopics | None:
    """The answer may have waited for the log, and a topic may have gone meanwhile: its positions are not those of the
    one that has its name now. A request that names no topics gets no
    error for such a topic: it is left out."""
    known = image.topics.get(topic.name)
    if known is not None and topic.topic_id in (NO_ID, known.id):
        topic.topic_id = known.id
        return topic
    if names_topics:
        return _refused(topic, [p.partition_index for p in topic.partitions], ErrorCode.UNKNOWN_TOPIC_ID)
    return None
