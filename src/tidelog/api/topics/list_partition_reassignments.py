"""ListPartitionReassignments (46): the reassignments under way, as the controller knows them (KIP-455)."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.topics.list_partition_reassignments import ListPartitionReassignmentsRequest


def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Pending:
    return submit(request, context)
