"""DeleteTopics (20): deleting topics, by name or id."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest


def handle(request: DeleteTopicsRequest, context: Context) -> Handed:
    return hand_over(request, context)
