"""ListPartitionReassignments (46): the reassignments under way, as the controller knows them (KIP-455)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.list_partition_reassignments import ListPartitionReassignmentsRequest


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Handed:
    return hand_over(request, context)
