"""Controller mutations: CreateTopics (19), CreatePartitions (37) and DeleteTopics (20), by name or id.

They are handed to the controller within the quota of the client (KIP-599). Newer versions refuse, topic by topic, what
exceeds the quota with THROTTLING_QUOTA_EXCEEDED; for older ones all is done and the client is throttled. The broker
that receives the request counts, as it knows its clients.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple

from tidelog.api.context import Context, Pending
from tidelog.api.to_controller import submit
from tidelog.controller.commands.topics import count_of, exceeds_count
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.wire.refusals import refuse

NAMED_UNTIL = 5
"""Up to this version of DeleteTopics topics are named only, in a list of their own."""


class Mutation(NamedTuple):
    """One API: the fields of its requested topics and of its results, what a topic costs in partitions, and the
    version since which it refuses."""

    requested: str
    results: str
    cost: Callable[[Any, Context], int]
    strict_since: int


def create_topics(request: CreateTopicsRequest, context: Context) -> Pending | CreateTopicsResponse:
    answer: Pending | CreateTopicsResponse = _submit_within_quota(request, context, _CREATE_TOPICS)
    return answer


def create_partitions(request: CreatePartitionsRequest, context: Context) -> Pending | CreatePartitionsResponse:
    answer: Pending | CreatePartitionsResponse = _submit_within_quota(request, context, _CREATE_PARTITIONS)
    return answer


def delete_topics(request: DeleteTopicsRequest, context: Context) -> Pending | DeleteTopicsResponse:
    mutation = _DELETE_BY_NAME if context.version <= NAMED_UNTIL else _DELETE_BY_STATE
    answer: Pending | DeleteTopicsResponse = _submit_within_quota(request, context, mutation)
    return answer


def exceeds(request: Any, context: Context) -> bool:
    """Whether the request creates more partitions than one may. The controller looks at this, too, but a large request
    comes to it in parts."""
    if isinstance(request, CreateTopicsRequest):
        return exceeds_count(
            len(topic.assignments) or count_of(topic, context.broker.config) for topic in request.topics
        )
    if isinstance(request, CreatePartitionsRequest):
        return exceeds_count(_cost_of_partitions(topic, context) for topic in request.topics)
    return False


def _submit_within_quota(request: Any, context: Context, mutation: Mutation) -> Any | Pending:
    """Hand what is within the quota to the controller; the rest is refused in the same answer."""
    bill = context.bill
    if bill is None or getattr(request, "validate_only", False):
        return submit(request, context)
    requested: Sequence[Any] = getattr(request, mutation.requested)
    accepted: list[Any] = []
    refused: list[Any] = []
    for topic in requested:
        cost = mutation.cost(topic, context)
        within, wait_ms = context.broker.quotas.record_mutation(
            bill.user,
            bill.client_id,
            cost,
            context.now.mono,
            strict=context.version >= mutation.strict_since,
        )
        (accepted if within or cost == 0 else refused).append(topic)
        bill.throttle_ms = max(bill.throttle_ms, wait_ms)
    if not refused:
        return submit(request, context)
    refusal = refuse(_with(request, mutation, refused), ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The quota is exceeded.")
    if not accepted:
        return refusal
    bill.finish = lambda response: getattr(response, mutation.results).extend(getattr(refusal, mutation.results))
    return submit(_with(request, mutation, accepted), context)


def _with(request: Any, mutation: Mutation, topics: list[Any]) -> Any:
    changed = copy(request)
    setattr(changed, mutation.requested, topics)
    return changed


def _partition_count(topic: str | None, topic_id: bytes, context: Context) -> int:
    """The number of partitions of a topic, 0 where this broker does not know it."""
    image = context.broker.image
    known = image.topics.get(topic or image.topic_names.get(topic_id, ""))
    return len(known.partitions) if known is not None else 0


def _cost_of_topic(topic: CreatableTopic, context: Context) -> int:
    if topic.name in context.broker.image.topics:
        return 0
    requested = len(topic.assignments) or topic.num_partitions
    return context.broker.config.num_partitions if requested == -1 else max(requested, 0)


def _cost_of_partitions(topic: CreatePartitionsTopic, context: Context) -> int:
    existing = _partition_count(topic.name, NO_ID, context)
    return max(topic.count - existing, 0) if existing else 0


_CREATE_TOPICS = Mutation("topics", "topics", _cost_of_topic, strict_since=6)
_CREATE_PARTITIONS = Mutation("topics", "results", _cost_of_partitions, strict_since=3)
_DELETE_BY_NAME = Mutation(
    "topic_names", "responses", lambda name, context: _partition_count(name, NO_ID, context), strict_since=5
)
_DELETE_BY_STATE = Mutation(
    "topics", "responses", lambda topic, context: _partition_count(topic.name, topic.topic_id, context), strict_since=5
)
