"""CreatePartitions (37): adding partitions to topics."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.create_partitions import CreatePartitionsRequest


def handle(request: CreatePartitionsRequest, context: Context) -> Handed:
    return hand_over(request, context)
