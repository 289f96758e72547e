"""AlterPartitionReassignments (45): replicas that move to other brokers, or do not after all (KIP-455)."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.topics.alter_partition_reassignments import AlterPartitionReassignmentsRequest


def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Pending:
    return submit(request, context)
