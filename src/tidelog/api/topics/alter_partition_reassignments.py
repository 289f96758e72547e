"""AlterPartitionReassignments (45): replicas that move to other brokers, or do not after all (KIP-455)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.topics.alter_partition_reassignments import AlterPartitionReassignmentsRequest


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Handed:
    return hand_over(request, context)
