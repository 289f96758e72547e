"""AlterPartition (56), inter-broker: a leader asks the controller to change its in-sync set (KIP-497)."""

from tidelog.api.cluster.to_controller import submit
from tidelog.api.context import Context, Pending
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest


def handle(request: AlterPartitionRequest, context: Context) -> Pending:
    return submit(request, context)
