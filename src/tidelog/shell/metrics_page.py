"""The HTTP endpoint of the metrics: answers every GET with all metrics and closes the connection."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidelog.node.node import Node
from tidelog.shell import exporter_metrics, kafka_metrics

REQUEST_LIMIT = 16 * 1024
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NodeMetrics(Collector):
    """Collects one node's metrics. `events` counts the node's events by kind."""

    def __init__(self, node: Node, events: Mapping[str, int]) -> None:
        self._node = node
        self._events = events

    def collect(self) -> Iterator[Metric]:
        yield from kafka_metrics.metrics(self._node, self._events)
        yield from exporter_metrics.metrics(self._node)


class MetricsPage:
    def __init__(self, node: Node, events: Mapping[str, int]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(NodeMetrics(node, events))
        ProcessCollector(registry=self._registry)

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
