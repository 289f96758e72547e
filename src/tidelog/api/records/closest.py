"""Fetching from the closest replica (KIP-392)."""

from tidelog.api.context import Context
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition

RACK_AWARE = "RackAwareReplicaSelector"


def replica(partition: Partition, rack: str, offset: int, context: Context) -> int | None:
    """The in-sync replica in the consumer's rack that has `offset`, where that is another than the leader."""
    role = partition.role
    selector = context.broker.config.replica_selector_class
    if not rack or not isinstance(role, Leader) or not selector or not selector.endswith(RACK_AWARE):
        return None
    brokers = context.broker.image.brokers
    own = brokers.get(partition.broker_id)
    if own is not None and own.rack == rack:
        return None
    near = [
        (progress.log_end_offset, -broker)
        for broker, progress in role.remote.items()
        if broker in role.isr
        and broker in brokers
        and brokers[broker].rack == rack
        and progress.log_start_offset <= offset <= progress.log_end_offset
    ]
    return -max(near)[1] if near else None
