"""CreatePartitions (37): adding partitions to topics."""

from tidelog.api.context import Context, Pending
from tidelog.api.topics.mutations import Mutation, hand_over_within_quota, partitions_of
from tidelog.model import NO_ID
from tidelog.wire.messages.topics.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)


def handle(request: CreatePartitionsRequest, context: Context) -> Pending | CreatePartitionsResponse:
    answer: Pending | CreatePartitionsResponse = hand_over_within_quota(request, context, _MUTATION)
    return answer


def _cost(wish: CreatePartitionsTopic, context: Context) -> int:
    there = partitions_of(wish.name, NO_ID, context)
    return max(wish.count - there, 0) if there else 0


_MUTATION = Mutation("topics", "results", _cost, strict_since=3)
