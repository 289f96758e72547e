"""A client in the world: requests to brokers by id, one connection each, answers by callback.

`ask` always calls back exactly once: with the response, or with None where no answer came in time, the connection
broke or could not be made. An answer that fails to come closes its connection, for the ones behind it would never come.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tidelog.model import TopicPartition
from tidelog.sim.network import FRAME_LIMIT, End
from tidelog.sim.world import CLIENT_PORT, World
from tidelog.wire import codec
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

Answered = Callable[[Any], None]

REQUEST_TIMEOUT = 5_000_000
METADATA, METADATA_VERSION = 3, 12
UNSENT_LIMIT = FRAME_LIMIT


@dataclass(slots=True, eq=False)
class Asked:
    key: int
    version: int
    correlation_id: int
    request: Any
    answered: Answered


@dataclass(slots=True, eq=False)
class Connection:
    """The way to one broker. Requests wait in `unsent` until it stands."""

    broker: int
    number: int
    end: End | None = None
    over: bool = False
    asked: deque[Asked] = field(default_factory=deque)
    unsent: deque[Asked] = field(default_factory=deque)


class Client:
    """A `network.Party`. `leaders` is what the last metadata said."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(world.random.getrandbits(64))
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._connections: dict[int, Connection] = {}
        self._by_number: dict[int, Connection] = {}
        self._numbers = 0
        self._correlation = 0

    def __repr__(self) -> str:
        return f"<client {self.name}, {len(self._connections)} connections>"

    def ask(self, broker: int, key: int, version: int, request: Any, answered: Answered) -> None:
        self._correlation += 1
        asked = Asked(key, version, self._correlation, request, answered)
        connection = self._connections.get(broker)
        if connection is None:
            connection = self._open(broker)
        if connection.end is None:
            connection.unsent.append(asked)
        else:
            self._send(connection, asked)
        self.world.after(REQUEST_TIMEOUT, partial(self._expire, connection, asked))

    def _open(self, broker: int) -> Connection:
        self._numbers += 1
        connection = Connection(broker, self._numbers)
        self._connections[broker] = self._by_number[self._numbers] = connection
        self.world.network.connect(self, connection.number, f"broker-{broker}", CLIENT_PORT)
        return connection

    def _send(self, connection: Connection, asked: Asked) -> None:
        assert connection.end is not None
        connection.asked.append(asked)
        parts = codec.encode_request(asked.key, asked.version, asked.correlation_id, self.name, asked.request)
        self.world.network.send(connection.end, b"".join(bytes(part) for part in parts))  # type: ignore[arg-type]

    def _expire(self, connection: Connection, asked: Asked) -> None:
        if not connection.over and (asked in connection.asked or asked in connection.unsent):
            self.drop(connection)

    def drop(self, connection: Connection) -> None:
        """The connection is over: nobody on it will be answered."""
        connection.over = True
        if self._connections.get(connection.broker) is connection:
            del self._connections[connection.broker]
        self._by_number.pop(connection.number, None)
        if connection.end is not None:
            self.world.network.close(connection.end)
        for asked in (*connection.asked, *connection.unsent):
            asked.answered(None)

    # network.Party.

    def connected(self, end: End) -> None:
        connection = self._by_number.get(end.number)
        if connection is None:
            self.world.network.close(end)
            return
        connection.end = end
        while connection.unsent:
            self._send(connection, connection.unsent.popleft())

    def connect_failed(self, number: int, reason: str) -> None:
        connection = self._by_number.get(number)
        if connection is not None:
            self.drop(connection)

    def disconnected(self, end: End) -> None:
        self.connect_failed(end.number, "disconnected")

    def arrived(self, end: End, data: bytes) -> None:
        connection = self._by_number.get(end.number)
        if connection is None:
            return
        for frame in [bytes(frame) for frame in end.reader.feed(data)]:
            if connection.over:
                return
            asked = connection.asked.popleft()
            correlation_id, response = codec.decode_response(asked.key, asked.version, frame)
            assert correlation_id == asked.correlation_id, f"{self!r} got the answer to another request"
            self.world.note(self.name, "answer", f"{type(response).__name__} to #{correlation_id}")
            asked.answered(response)

    # Metadata.

    def refresh(self, topic: str, then: Callable[[], None]) -> None:
        """Ask some broker who leads the topic's partitions."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        broker = self.random.randrange(len(self.world.hosts))
        self.ask(broker, METADATA, METADATA_VERSION, request, partial(self._learn, then))

    def _learn(self, then: Callable[[], None], response: Any) -> None:
        for topic in response.topics if response is not None else ():
            if not topic.error_code:
                self.topic_ids[topic.name] = topic.topic_id
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.partition_index)
                if partition.leader_epoch < self.epochs.get(name, -1):
                    continue  # told by a broker that has missed an election
                self.epochs[name] = partition.leader_epoch
                if partition.error_code or partition.leader_id < 0:
                    self.leaders.pop(name, None)
                else:
                    self.leaders[name] = partition.leader_id
        then()
