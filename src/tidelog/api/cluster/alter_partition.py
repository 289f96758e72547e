"""AlterPartition (56), inter-broker: a leader asks the controller to change its in-sync set (KIP-497)."""

from tidelog.api.cluster.hand_over import hand_over
from tidelog.api.context import Context, Handed
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest


def handle(request: AlterPartitionRequest, context: Context) -> Handed:
    return hand_over(request, context)
