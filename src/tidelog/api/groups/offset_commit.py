"""OffsetCommit (key 8)."""

from collections.abc import Container
from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.group_requests import submit
from tidelog.controller.image import ClusterImage
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.wire.message import replace
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID_VERSION = 10
"""From this version on topics are named by their ids (KIP-848)."""

Key = tuple[str, bytes]


def handle(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse | Pending:
    """Partitions that the cluster does not have are refused here; the group decides on the others together."""
    refused: dict[Key, OffsetCommitResponseTopic] = {}
    known: list[OffsetCommitRequestTopic] = []
    for topic in request.topics:
        indexes = _resolve(topic, context.broker.image, context.version)
        found = [partition for partition in topic.partitions if partition.partition_index in indexes]
        missing = [p.partition_index for p in topic.partitions if p.partition_index not in indexes]
        if found:
            known.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=found))
        if missing or not topic.partitions:
            is_unknown_id = context.version >= TOPIC_ID_VERSION and not topic.name
            code = ErrorCode.UNKNOWN_TOPIC_ID if is_unknown_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            refused[topic.name, topic.topic_id] = _refused(topic, missing, code)
    if not known:
        return OffsetCommitResponse(topics=list(refused.values()))
    return submit(replace(request, topics=known), context, partial(_merge, refused))


def _resolve(topic: OffsetCommitRequestTopic, image: ClusterImage, version: int) -> Container[int]:
    """Complete the topic's name and id from what the cluster has; its partitions, none where it is unknown."""
    found = image.topic_by_id(topic.topic_id) if version >= TOPIC_ID_VERSION else image.topics.get(topic.name)
    if found is None:
        return ()
    topic.name, topic.topic_id = found.name, found.id
    return found.partitions


def _refused(topic: OffsetCommitRequestTopic, indexes: list[int], code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id or NO_ID, partitions=partitions)


def _merge(refused: dict[Key, OffsetCommitResponseTopic], response: OffsetCommitResponse) -> OffsetCommitResponse:
    for topic in response.topics:
        before = refused.setdefault((topic.name, topic.topic_id), topic)
        if before is not topic:
            before.partitions += topic.partitions
    response.topics = list(refused.values())
    return response
