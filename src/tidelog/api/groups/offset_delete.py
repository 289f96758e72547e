"""OffsetDelete (key 47)."""

from functools import partial

from tidelog.api.context import Context, Pending
from tidelog.api.groups.group_requests import submit
from tidelog.errors import ErrorCode
from tidelog.wire.messages.groups.committed_offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: Context) -> Pending:
    """Partitions that the cluster does not have are refused here, whatever the coordinator answers for the others."""
    refused: dict[str, OffsetDeleteResponseTopic] = {}
    known: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        image = context.broker.image.topics.get(topic.name)
        existing = {} if image is None else image.partitions
        found = [partition for partition in topic.partitions if partition.partition_index in existing]
        missing = [partition for partition in topic.partitions if partition.partition_index not in existing]
        if found:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=found))
        if missing or image is None:
            refused[topic.name] = _refused(topic.name, [partition.partition_index for partition in missing])
    known_only = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    return submit(known_only, context, partial(_merge, refused))


def _refused(name: str, indexes: list[int]) -> OffsetDeleteResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in indexes]
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)


def _merge(refused: dict[str, OffsetDeleteResponseTopic], response: OffsetDeleteResponse) -> OffsetDeleteResponse:
    if response.error_code:
        return response
    for topic in response.topics:
        if topic.name in refused:
            refused[topic.name].partitions += topic.partitions
        else:
            refused[topic.name] = topic
    response.topics = list(refused.values())
    return response
