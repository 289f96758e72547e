"""DeleteTopics (20): deleting topics, by name or id."""

from tidelog.api.context import Context, Pending
from tidelog.api.topics.mutations import Mutation, hand_over_within_quota, partitions_of
from tidelog.model import NO_ID
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

NAMED_UNTIL = 5
"""Up to this version topics are named only, in a list of their own."""


def handle(request: DeleteTopicsRequest, context: Context) -> Pending | DeleteTopicsResponse:
    mutation = _BY_NAME if context.version <= NAMED_UNTIL else _BY_STATE
    answer: Pending | DeleteTopicsResponse = hand_over_within_quota(request, context, mutation)
    return answer


_BY_NAME = Mutation(
    "topic_names", "responses", lambda name, context: partitions_of(name, NO_ID, context), strict_since=5
)
_BY_STATE = Mutation(
    "topics", "responses", lambda wish, context: partitions_of(wish.name, wish.topic_id, context), strict_since=5
)
