"""CreateTopics (19): creating topics."""

from tidelog.api.context import Context, Pending
from tidelog.api.topics.mutations import Mutation, hand_over_within_quota
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse


def handle(request: CreateTopicsRequest, context: Context) -> Pending | CreateTopicsResponse:
    answer: Pending | CreateTopicsResponse = hand_over_within_quota(request, context, _MUTATION)
    return answer


def _cost(wish: CreatableTopic, context: Context) -> int:
    if wish.name in context.broker.image.topics:
        return 0
    wished = len(wish.assignments) or wish.num_partitions
    return context.broker.config.num_partitions if wished == -1 else max(wished, 0)


_MUTATION = Mutation("topics", "topics", _cost, strict_since=6)
