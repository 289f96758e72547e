"""The replica that a request is for, the present leader for a client that is refused (KIP-951), and its endpoint."""

from tidelog.api.context import Broker, Context
from tidelog.errors import ApiError, ErrorCode
from tidelog.partition.partition import Partition

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def find(broker: Broker, topic: str, partition: int) -> Partition:
    """The replica held here; NOT_LEADER_OR_FOLLOWER where others hold it, UNKNOWN_TOPIC_OR_PARTITION where none do."""
    replica = broker.replicas.get(topic, partition)
    if replica is not None:
        return replica
    known = broker.image.topics.get(topic)
    if known is not None and partition in known.partitions:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def present_leader(broker: Broker, topic: str, partition: int) -> tuple[int, int]:
    """(leader id, leader epoch) as last received from the controller, (-1, -1) if unknown."""
    replica = broker.replicas.get(topic, partition)
    known = broker.image.topics.get(topic)
    partition_image = known.partitions.get(partition) if known else None
    if partition_image is None or (replica is not None and replica.epoch > partition_image.leader_epoch):
        return (-1, -1) if replica is None else (replica.leader_id, replica.epoch)
    return partition_image.leader, partition_image.leader_epoch


def endpoints(context: Context, leaders: set[int]) -> list[tuple[int, str, int, str | None]]:
    """(id, host, port, rack) of these brokers on the caller's listener, for `node_endpoints`."""
    found = []
    for broker_id in sorted(leaders):
        broker = context.broker.image.brokers.get(broker_id)
        endpoint = broker.endpoints.get(context.listener) if broker else None
        if broker and endpoint:
            found.append((broker_id, endpoint.host, endpoint.port, broker.rack))
    return found
