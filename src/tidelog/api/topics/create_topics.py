"""CreateTopics (19): creating topics."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.create_topics import CreateTopicsRequest


def handle(request: CreateTopicsRequest, context: Context) -> Handed:
    return hand_over(request, context)
