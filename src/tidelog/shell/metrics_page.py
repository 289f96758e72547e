"""The HTTP endpoint of the metrics: answers every GET with all metrics and closes the connection."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tidelog.node.node import Node
from tidelog.shell import exporter_metrics, kafka_metrics
from tidelog.shell.server import Server

REQUEST_LIMIT = 16 * 1024
REQUEST_S = 10.0
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class NodeMetrics(Collector):
    """Collects one node's metrics, and those of the server that runs it."""

    def __init__(self, node: Node, server: Server) -> None:
        self._node = node
        self._server = server

    def collect(self) -> Iterator[Metric]:
        yield from kafka_metrics.metrics(self._node, self._server.events)
        yield from kafka_metrics.memory_pool(self._server.arrivals)
        yield from exporter_metrics.metrics(self._node)


class MetricsPage:
    def __init__(self, node: Node, server: Server) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(NodeMetrics(node, server))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    async def listen(self, host: str, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._answer, host, port, limit=REQUEST_LIMIT)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, TimeoutError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            status, body = ("200 OK", self.text()) if head.startswith(b"GET ") else ("405 Method Not Allowed", b"")
            header = f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n"
            writer.write(header.encode() + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        writer.close()
