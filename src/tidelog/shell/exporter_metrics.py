"""The metrics of kafka_exporter, each exported by one broker: for a partition by its leader, for a group by its
coordinator, for the cluster by the controller. The sum over all brokers equals what kafka_exporter reports."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric

from tidelog.node.node import Node
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.shell.kafka_metrics import PARTITION, gauge, gauges, is_under_replicated, labels_of

POSITION = ("consumergroup", *PARTITION)
GROUP = ("consumergroup",)


class Position(NamedTuple):
    """`end` is None if this broker has no replica of the partition."""

    group: str
    topic: str
    partition: str
    offset: int
    end: int | None


def metrics(node: Node) -> Iterator[Metric]:
    yield from _cluster(node)
    yield from _partitions(node)
    yield from _groups(node)


def _cluster(node: Node) -> Iterator[Metric]:
    if not node.broker.controller.leading:
        return
    image = node.broker.image
    yield gauge("kafka_brokers", "Brokers alive.", len(image.brokers))
    addresses = (
        ((str(broker.id), f"{endpoint.host}:{endpoint.port}"), 1)
        for broker in image.brokers.values()
        for name, endpoint in broker.endpoints.items()
        if name != node.broker.inter_broker_listener
    )
    yield gauges("kafka_broker_info", "1 for each broker.", ("id", "address"), addresses)
    counts = (((topic.name,), len(topic.partitions)) for topic in image.topics.values())
    yield gauges("kafka_topic_partitions", "Partitions of a topic.", ("topic",), counts)


def _partitions(node: Node) -> Iterator[Metric]:
    led = [(labels_of(each), each, each.role) for each in node.replicas if isinstance(each.role, Leader)]
    own = node.broker.broker_id
    families = (
        ("current_offset", "High watermark.", [each.high_watermark for _, each, _ in led]),
        ("oldest_offset", "Log start offset.", [each.log.log_start_offset for _, each, _ in led]),
        ("in_sync_replica", "Replicas in sync.", [len(role.isr) for _, _, role in led]),
        ("leader", "Id of the leader.", [own] * len(led)),
        ("leader_is_preferred", "1 if the preferred replica leads.", [each.replicas[0] == own for _, each, _ in led]),
        ("replicas", "Assigned replicas.", [len(each.replicas) for _, each, _ in led]),
        (
            "under_replicated_partition",
            "1 if a replica is out of sync.",
            [is_under_replicated(each, role) for _, each, role in led],
        ),
    )
    for name, text, numbers in families:
        samples = ((labels, number) for (labels, _, _), number in zip(led, numbers, strict=True))
        yield gauges(f"kafka_topic_partition_{name}", text, PARTITION, samples)


def _groups(node: Node) -> Iterator[Metric]:
    positions = list(_positions(node))
    lags = {each: max(0, each.end - each.offset) for each in positions if each.end is not None}
    sums: Counter[str] = Counter()
    for position in positions:
        sums[position.group] += position.offset
    lag_sums: Counter[str] = Counter()
    for position, lag in lags.items():
        lag_sums[position.group] += lag
    machines = node.broker.groups.machines()
    members = {group: len(each.members) for machine in machines for group, each in machine.groups.items()}
    members |= {group: len(each.members) for machine in machines for group, each in machine.consumers.newest.items()}
    offsets = ((position[:3], position.offset) for position in positions)
    behind = ((position[:3], lag) for position, lag in lags.items())
    yield gauges("kafka_consumergroup_current_offset", "Committed offset.", POSITION, offsets)
    yield gauges("kafka_consumergroup_lag", "Records after the committed offset.", POSITION, behind)
    yield gauges("kafka_consumergroup_current_offset_sum", "Of a group.", GROUP, _by_group(sums))
    yield gauges("kafka_consumergroup_lag_sum", "Of a group.", GROUP, _by_group(lag_sums))
    yield gauges("kafka_consumergroup_members", "Members of a group.", GROUP, _by_group(members))


def _by_group(numbers: Mapping[str, int]) -> Iterator[tuple[tuple[str], int]]:
    return (((group,), number) for group, number in sorted(numbers.items()))


def _positions(node: Node) -> Iterator[Position]:
    for machine in node.broker.groups.machines():
        for group, partitions in machine.offsets.snapshot().items():
            for (topic, index), committed in sorted(partitions.items()):
                end = _end(node.replicas.get(topic, index))
                yield Position(group, topic, str(index), committed.offset, end)


def _end(replica: Partition | None) -> int | None:
    """The end offset for consumers. A follower learns the high watermark late; its log end offset is the
    nearest value."""
    if replica is None:
        return None
    return replica.high_watermark if isinstance(replica.role, Leader) else replica.log.log_end_offset
