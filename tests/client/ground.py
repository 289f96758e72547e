"""A cluster that a client under test talks to: brokers that answer as a table says, a network with faults, and a clock
that only moves when nothing else happens.

Requests and answers are real bytes. A handler is called with (broker id, request, reply): it may reply at once, later,
or never.
"""

import heapq
import random
from itertools import count

from tidelog.client.metadata import Broker
from tidelog.effects import Close, Connect, Send
from tidelog.model import Time, TopicPartition
from tidelog.node.connections import Pipeline
from tidelog.wire import codec
from tidelog.wire.frames import FrameReader
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.features import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdResponse

BOOTSTRAP = [("bootstrap", 9092)]
LATENCY_MS = 1

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, API_VERSIONS, INIT_PRODUCER_ID = 11, 12, 13, 14, 18, 22


class Ground:
    """Three brokers and one topic `t` with two partitions, led by brokers 0 and 1, unless a test changes that."""

    def __init__(self, seed=0):
        self.chance = random.Random(seed)
        self.brokers = {number: Broker(number, f"host{number}", 9092) for number in range(3)}
        self.down = set()
        self.controller = 0
        self.coordinator = 0
        self.leaders = {TopicPartition("t", 0): (0, 1), TopicPartition("t", 1): (1, 1)}
        self.topic_ids = {"t": bytes([7]) * 16}
        self.topic_errors = {}
        self.ranges = {key: (schema.min_version, schema.max_version) for key, schema in SCHEMAS.items()}
        self.asked = []  # (broker, key, version, request), in order of arrival
        self.handlers = {
            API_VERSIONS: self.api_versions,
            METADATA: self.metadata,
            FIND_COORDINATOR: self.find_coordinator,
            INIT_PRODUCER_ID: self.init_producer_id,
        }
        self.producer_ids = count(1000)
        self.drops_request = lambda: False
        self.drops_answer = lambda: False
        self.client = None
        self.now = Time(0, 1_000_000_000_000)
        self._events = []
        self._order = count()
        self._connections = {}

    def entropy(self, size):
        return self.chance.randbytes(size)

    # What brokers answer by themselves.

    def api_versions(self, _broker, _request, reply):
        reply(
            ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.ranges.items()
                ]
            )
        )

    def metadata(self, _broker, request, reply):
        names = set(self.topic_ids) if request.topics is None else {topic.name for topic in request.topics}
        topics = []
        for name in sorted(names):
            led = {p.partition: leader for p, leader in self.leaders.items() if p.topic == name}
            partitions = [
                MetadataResponsePartition(
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                )
                for index, (leader, epoch) in led.items()
            ]
            code = self.topic_errors.get(name, 0 if led else 3)
            topics.append(
                MetadataResponseTopic(
                    error_code=code, name=name, topic_id=self.topic_ids.get(name, bytes(16)), partitions=partitions
                )
            )
        brokers = [
            MetadataResponseBroker(node_id=b.id, host=b.host, port=b.port)
            for b in self.brokers.values()
            if b.id not in self.down
        ]
        reply(MetadataResponse(brokers=brokers, cluster_id="ground", controller_id=self.controller, topics=topics))

    def find_coordinator(self, _broker, request, reply):
        broker = self.brokers[self.coordinator]
        reply(
            FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, node_id=broker.id, host=broker.host, port=broker.port)
                    for key in request.coordinator_keys
                ]
            )
        )

    def init_producer_id(self, _broker, _request, reply):
        reply(InitProducerIdResponse(producer_id=next(self.producer_ids), producer_epoch=0))

    # The world.

    def start(self, client):
        self.client = client
        self.carry_out(client.wake(self.now))
        return client

    def call(self, call, *arguments, **named):
        """Call a method of the client that returns effects, or (something, effects), and answer the something."""
        result = call(*arguments, **named)
        value, effects = result if isinstance(result, tuple) else (None, result)
        self.carry_out(effects)
        return value

    def carry_out(self, effects):
        for effect in effects:
            if isinstance(effect, Connect):
                self._connect(effect)
            elif isinstance(effect, Send):
                self._send(effect)
            elif isinstance(effect, Close):
                self._close(effect.connection)

    def run(self, milliseconds):
        """Let that much time pass."""
        self.run_until(lambda: False, milliseconds)

    def run_until(self, condition, milliseconds=600_000):
        """Until the condition holds; whether it did before so much time had passed."""
        until = self.now.mono + milliseconds
        for _ in range(200_000):
            if condition():
                return True
            due = self.client.next_deadline
            event = self._events[0][0] if self._events else None
            moments = [moment for moment in (due, event) if moment is not None]
            if not moments or min(moments) > until:
                self._move_to(until)
                return condition()
            self._move_to(min(moments))
            if event is not None and event <= self.now.mono:
                heapq.heappop(self._events)[2]()
            else:
                self.carry_out(self.client.wake(self.now))
        raise AssertionError(f"{self.client} turns without end at {self.now}")

    def kill(self, broker):
        """The broker is gone, with its connections; somebody else leads what it led."""
        self.down.add(broker)
        for partition, (leader, epoch) in self.leaders.items():
            if leader == broker:
                self.leaders[partition] = (self.chance.choice(sorted(self.brokers.keys() - self.down)), epoch + 1)
        for connection in [number for number, (owner, _, _) in self._connections.items() if owner == broker]:
            self.disconnect(connection)

    def disconnect(self, connection):
        if self._connections.pop(connection, None) is not None:
            self.later(LATENCY_MS, lambda: self.carry_out(self.client.disconnected(connection, self.now)))

    def requests(self, key):
        return [request for _, asked_key, _, request in self.asked if asked_key == key]

    def later(self, milliseconds, action):
        heapq.heappush(self._events, (self.now.mono + milliseconds, next(self._order), action))

    def _move_to(self, moment):
        passed = max(0, moment - self.now.mono)
        self.now = Time(self.now.mono + passed, self.now.wall + passed)

    def _close(self, connection):
        """What was sent before arrives."""
        self.later(LATENCY_MS, lambda: self._connections.pop(connection, None))

    def _connect(self, effect):
        owner = next(
            (b.id for b in self.brokers.values() if b.host == effect.host),
            min(self.brokers.keys() - self.down, default=None),
        )
        if owner is None or owner in self.down:
            self.later(
                LATENCY_MS, lambda: self.carry_out(self.client.connect_failed(effect.connection, "refused", self.now))
            )
        else:
            self._connections[effect.connection] = (owner, FrameReader(2**31 - 1), Pipeline())
            self.later(LATENCY_MS, lambda: self.carry_out(self.client.connected(effect.connection, self.now)))

    def _send(self, effect):
        if effect.connection not in self._connections:
            return
        if self.drops_request():
            self.disconnect(effect.connection)
            return
        data = b"".join(effect.parts)
        self.later(LATENCY_MS, lambda: self._arrive(effect.connection, data))

    def _arrive(self, connection, data):
        if connection not in self._connections:
            return
        broker, reader, pipeline = self._connections[connection]
        for frame in reader.feed(data):
            header, request = codec.decode_request(bytes(frame))
            self.asked.append((broker, header.api_key, header.api_version, request))

            slot = pipeline.open()

            def reply(response, header=header, slot=slot):
                self._answer(connection, header, slot, response)

            self.handlers[header.api_key](broker, request, reply)
            if header.api_key == PRODUCE and request.acks == 0:
                pipeline.answer(slot, None)

    def _answer(self, connection, header, slot, response):
        if connection not in self._connections:
            return
        if self.drops_answer():
            self.disconnect(connection)
            return
        pipeline = self._connections[connection][2]
        parts = codec.encode_response(header.api_key, header.api_version, header.correlation_id, response)
        answers = b"".join(pipeline.answer(slot, parts))
        frames = FrameReader(2**31 - 1).feed(answers)
        if not frames:
            return

        def deliver():
            if connection in self._connections:
                effects = self.client.received(connection, frames, self.now)
                for frame in frames:
                    frame[:] = bytes(len(frame))  # views die when the call returns
                self.carry_out(effects)

        self.later(LATENCY_MS, deliver)
