"""DescribeTopicPartitions (75): partitions of topics in pages, in order of name and number (KIP-966).

As in Kafka, the last known eligible leader replica is the last leader, while there is none.
"""

from collections.abc import Iterable

from tidelog.api import authorized_operations as operations
from tidelog.api.context import Context
from tidelog.api.topics.metadata import may_describe, unreachable
from tidelog.controller import topic_names
from tidelog.controller.image import TopicImage
from tidelog.errors import ErrorCode
from tidelog.model import INTERNAL_TOPICS, NO_LEADER
from tidelog.slices import Sliced, kept_of
from tidelog.wire.messages.topics.metadata import (
    Cursor,
    CursorResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(request: DescribeTopicPartitionsRequest, context: Context) -> Sliced[DescribeTopicPartitionsResponse]:
    image, cursor = context.broker.image, request.cursor
    wanted = [topic.name for topic in request.topics]
    if cursor is not None and (cursor.partition_index < 0 or (wanted and cursor.topic_name not in wanted)):
        return _refused(wanted)
    limit = max(min(context.broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    first = cursor.topic_name if cursor else ""
    chosen = sorted(name for name in set(wanted or image.topics) if name >= first)
    api = "DescribeTopicPartitions" if wanted else ""
    visible = yield from kept_of(chosen, lambda name: may_describe(name, context, api))
    response = _page(visible, cursor, limit, context, silent=not wanted)
    if wanted:
        response.topics += [_forbidden(name) for name in sorted(set(chosen).difference(visible))]
    return response


def _refused(wanted: Iterable[str]) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(name=name, error_code=ErrorCode.INVALID_REQUEST) for name in wanted
        ]
    )


def _page(
    chosen: list[str], cursor: Cursor | None, limit: int, context: Context, *, silent: bool
) -> DescribeTopicPartitionsResponse:
    response = DescribeTopicPartitionsResponse()
    left = limit
    for name in chosen:
        topic = context.broker.image.topics.get(name)
        start = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if left == 0:
            response.next_cursor = CursorResponse(topic_name=name, partition_index=start)
            break
        if topic is None:
            if not silent:
                response.topics.append(_missing(name, context))
            continue
        end = min(len(topic.partitions), start + left)
        response.topics.append(_topic(topic, range(start, end), context))
        if end < len(topic.partitions):
            response.next_cursor = CursorResponse(topic_name=name, partition_index=end)
            break
        left -= max(0, end - start)
    return response


def _forbidden(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=name in INTERNAL_TOPICS
    )


def _missing(name: str, context: Context) -> DescribeTopicPartitionsResponseTopic:
    fault = topic_names.fault(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if fault is None else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations.of_topic(context, name),
    )


def _topic(topic: TopicImage, indexes: range, context: Context) -> DescribeTopicPartitionsResponseTopic:
    brokers = context.broker.image.brokers.values()
    reachable = {broker.id for broker in brokers if context.listener in broker.endpoints}
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=partition.leader if partition.leader in reachable else NO_LEADER,
                leader_epoch=partition.leader_epoch,
                replica_nodes=partition.replicas,
                isr_nodes=partition.isr,
                eligible_leader_replicas=partition.elr,
                last_known_elr=[] if partition.last_leader == NO_LEADER else [partition.last_leader],
                offline_replicas=unreachable(partition, reachable),
            )
            for index in indexes
            if (partition := topic.partitions.get(index)) is not None
        ],
        topic_authorized_operations=operations.of_topic(context, topic.name),
    )
