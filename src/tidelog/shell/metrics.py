"""A page of metrics in Prometheus' format, where `metrics.listener` asks for it.

The node keeps plain numbers; here they are read on the loop at the moment of a request, and nothing is counted twice.
Names follow Kafka's (UnderReplicatedPartitions, UnderMinIsrPartitionCount, OfflinePartitionsCount, …).
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidelog.model import NO_LEADER
from tidelog.node.node import Node
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition

REQUEST_LIMIT = 16 * 1024
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REPLICA = ("topic", "partition")


class NodeMetrics(Collector):
    """What one node's numbers say. `events` counts the node's events by kind."""

    def __init__(self, node: Node, events: Mapping[str, int]) -> None:
        self._node = node
        self._events = events

    def collect(self) -> Iterator[Metric]:
        replicas = list(self._node.replicas)
        yield CounterMetricFamily("tidelog_requests", "Requests received.", value=self._node.dispatch.requests)
        events = CounterMetricFamily("tidelog_events", "Events by kind, such as isr.shrink.", labels=("kind",))
        for kind, count in sorted(self._events.items()):
            events.add_metric((kind,), count)
        yield events
        yield from _counts(replicas)
        yield from _offsets(replicas)
        if self._node.broker.controller.leading:
            yield _gauge("tidelog_offline_partitions", "Partitions without a leader.", _offline(self._node))


def _counts(replicas: list[Partition]) -> Iterator[Metric]:
    led = [(replica, replica.role) for replica in replicas if isinstance(replica.role, Leader)]
    lacking = sum(len(role.isr) < len(replica.replicas) for replica, role in led)
    short = sum(len(role.isr) < _needed(replica) for replica, role in led)
    yield _gauge("tidelog_replicas", "Replicas that this broker holds.", len(replicas))
    yield _gauge("tidelog_leaders", "Partitions that this broker leads.", len(led))
    yield _gauge("tidelog_under_replicated_partitions", "Led partitions with a replica out of sync.", lacking)
    yield _gauge("tidelog_under_min_isr_partitions", "Led partitions with fewer in sync than asked for.", short)


def _needed(replica: Partition) -> int:
    return min(replica.config.min_insync_replicas, len(replica.replicas))


def _offsets(replicas: list[Partition]) -> Iterator[Metric]:
    end = GaugeMetricFamily("tidelog_log_end_offset", "Offset of the next record.", labels=REPLICA)
    high = GaugeMetricFamily("tidelog_high_watermark", "What consumers may read ends here.", labels=REPLICA)
    size = GaugeMetricFamily("tidelog_log_bytes", "Size of the log.", labels=REPLICA)
    lag = GaugeMetricFamily("tidelog_replica_lag", "Records that a follower lacks.", labels=(*REPLICA, "replica"))
    for replica in replicas:
        labels = (replica.name.topic, str(replica.name.partition))
        end.add_metric(labels, replica.log.log_end_offset)
        high.add_metric(labels, replica.high_watermark)
        size.add_metric(labels, replica.log.size)
        for follower, progress in replica.role.remote.items() if isinstance(replica.role, Leader) else ():
            known = max(progress.log_end_offset, 0)
            lag.add_metric((*labels, str(follower)), replica.log.log_end_offset - known)
    yield from (end, high, size, lag)


def _offline(node: Node) -> int:
    topics = node.broker.image.topics.values()
    return sum(partition.leader == NO_LEADER for topic in topics for partition in topic.partitions.values())


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


class MetricsPage:
    """The HTTP side: every GET is answered with all metrics, and the connection is closed."""

    def __init__(self, node: Node, events: Mapping[str, int]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(NodeMetrics(node, events))

    def text(self) -> bytes:
        return generate_latest(self._registry)

    async def listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._answer, host, port, limit=REQUEST_LIMIT)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            status, body = ("200 OK", self.text()) if head.startswith(b"GET ") else ("405 Method Not Allowed", b"")
            header = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
            writer.write(header.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()
