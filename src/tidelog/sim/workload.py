"""What clients do in a run: create a topic, produce unique values with acks=all and idempotence, and read them.

The producer keeps up to five batches in flight and sends all that are not acknowledged again, in their order, when an
answer fails to come. What clients saw goes to the checks.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.suite import Suite
from tidelog.sim.client import Client
from tidelog.sim.faults import MILLI
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tidelog.wire.messages.transactions.init_producer_id import InitProducerIdRequest

PRODUCE, PRODUCE_VERSION = 0, 9
FETCH, FETCH_VERSION = 1, 12
CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 7
INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 4
IN_FLIGHT = 5
BACKOFF = 100 * MILLI


class Admin:
    """Creates topics, and asks again until they are there."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.created: set[str] = set()

    def create(self, topic: str, partitions: int, replicas: int, configs: dict[str, str]) -> None:
        given = [CreatableTopicConfig(name=name, value=value) for name, value in configs.items()]
        wish = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=replicas, configs=given)
        request = CreateTopicsRequest(topics=[wish], timeout_ms=4_000)
        broker = self.client.random.randrange(len(self.client.world.hosts))
        again = partial(self.create, topic, partitions, replicas, configs)
        answered = partial(self._answered, topic, again)
        self.client.ask(broker, CREATE_TOPICS, CREATE_TOPICS_VERSION, request, answered)

    def _answered(self, topic: str, again: Callable[[], None], response: Any) -> None:
        code = response.topics[0].error_code if response is not None else ErrorCode.NETWORK_EXCEPTION
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self.created.add(topic)
        else:
            self.client.world.count(f"create: {ErrorCode(code).name}")
            self.client.world.after(3 * BACKOFF, again)


@dataclass(slots=True, eq=False)
class Outgoing:
    """One batch on its way, with its place in the producer's sequence."""

    sequence: int
    count: int
    content: bytes
    crc: int
    acked: bool = False


class Producer:
    """An idempotent producer to one partition."""

    def __init__(self, client: Client, suite: Suite, name: TopicPartition, pace: tuple[int, int]) -> None:
        self.client = client
        self.world = client.world
        self.suite = suite
        self.name = name
        self.pace = pace
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequence = 0
        self.known = False
        """Whether a batch was acknowledged under the present producer id."""
        self.values = 0
        self.acked = 0
        self.given_up = 0
        self.queue: deque[Outgoing] = deque()
        self.stopped = False
        self._attempt = 0
        self._resting = False

    def __repr__(self) -> str:
        return f"<producer {self.client.name} of {self.name}: {self.acked} acked, {len(self.queue)} queued>"

    @property
    def idle(self) -> bool:
        return not self.queue

    def start(self) -> None:
        broker = self.client.random.randrange(len(self.world.hosts))
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        self.client.ask(broker, INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request, self._identified)

    def _identified(self, response: Any) -> None:
        if response is None or response.error_code:
            self.world.after(BACKOFF, self.start)
            return
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self.sequence = 0
        self.known = False
        self._tick(self.producer_id)

    def _tick(self, producer_id: int) -> None:
        if self.stopped or producer_id != self.producer_id:
            return
        if len(self.queue) < IN_FLIGHT:
            batch = self._batch()
            self.queue.append(batch)
            if not self._resting:
                self._send(batch)
        self.world.after(self.client.random.randint(*self.pace), partial(self._tick, producer_id))

    def _batch(self) -> Outgoing:
        count = self.client.random.randint(1, 3)
        padding = b"." * self.client.random.choice((0, 0, 20, 300))
        texts = [f"{self.client.name}-{self.values + index}".encode() + padding for index in range(count)]
        self.values += count
        wall = self.world.hosts[0].now().wall
        content = records.build(
            [records.Record(timestamp=wall, value=text) for text in texts],
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
        )
        outgoing = Outgoing(self.sequence, count, content, records.header(content).crc)
        self.sequence += count
        return outgoing

    def _send(self, batch: Outgoing) -> None:
        leader = self.client.leaders.get(self.name)
        if leader is None:
            self._rest()
            return
        data = PartitionProduceData(index=self.name.partition, records=batch.content)
        topic = TopicProduceData(name=self.name.topic, partition_data=[data])
        request = ProduceRequest(acks=-1, timeout_ms=3_000, topic_data=[topic])
        answered = partial(self._answered, batch, self._attempt)
        self.client.ask(leader, PRODUCE, PRODUCE_VERSION, request, answered)

    def _answered(self, batch: Outgoing, attempt: int, response: Any) -> None:
        answer = response.responses[0].partition_responses[0] if response is not None else None
        code: int = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error_code
        if code == ErrorCode.NONE and batch not in self.queue:
            return
        self.world.count(f"produce: {ErrorCode(code).name}")
        if code == ErrorCode.NONE and answer is not None:
            self.suite.acknowledged(self.name, answer.base_offset, batch.count, batch.crc)
            self._settle(batch)
        elif code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._settle(batch)
        elif attempt == self._attempt:
            self._refused(batch, ErrorCode(code))

    def _settle(self, batch: Outgoing) -> None:
        if not batch.acked:
            batch.acked = True
            self.acked += batch.count
            self.known = True
        while self.queue and self.queue[0].acked:
            self.queue.popleft()

    def _refused(self, batch: Outgoing, code: ErrorCode) -> None:
        in_order = batch is next(item for item in self.queue if not item.acked)
        if code in RETRIABLE or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not in_order):
            self._rest()
            return
        self.suite.refused(self.world, self.name, code, is_new=batch.sequence == 0 or not self.known)
        self.given_up += sum(item.count for item in self.queue if not item.acked)
        self.queue.clear()
        self._attempt += 1
        self.producer_id = -1
        self.world.after(BACKOFF, self.start)

    def _rest(self) -> None:
        """Wait, ask who leads, and send all that is not acknowledged again, in order."""
        if self._resting:
            return
        self._resting = True
        self._attempt += 1
        again = partial(self.client.refresh, self.name.topic, self._go_on)
        self.world.after(self.client.random.randint(BACKOFF // 2, BACKOFF), again)

    def _go_on(self) -> None:
        self._resting = False
        if self.name not in self.client.leaders:
            self._rest()
            return
        for batch in list(self.queue):
            if not batch.acked and not self._resting:
                self._send(batch)


class Reader:
    """A consumer of one partition from its first offset on, at read_uncommitted."""

    def __init__(self, client: Client, suite: Suite, name: TopicPartition) -> None:
        self.client = client
        self.world = client.world
        self.suite = suite
        self.name = name
        self.position = 0

    def __repr__(self) -> str:
        return f"<reader {self.client.name} of {self.name} at {self.position}>"

    def start(self) -> None:
        leader = self.client.leaders.get(self.name)
        if leader is None:
            self._rest()
            return
        wanted = FetchPartition(
            partition=self.name.partition,
            current_leader_epoch=self.client.epochs.get(self.name, -1),
            fetch_offset=self.position,
            partition_max_bytes=self.client.random.choice((1, 500, 1 << 20)),
        )
        topic = FetchTopic(topic=self.name.topic, partitions=[wanted])
        request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
        self.client.ask(leader, FETCH, FETCH_VERSION, request, self._answered)

    def _answered(self, response: Any) -> None:
        if response is None or response.error_code or not response.responses:
            self._rest()
            return
        data = response.responses[0].partitions[0]
        if data.error_code:
            self.world.count(f"fetch: {ErrorCode(data.error_code).name}")
            self.suite.read_refused(self.name, self.position, ErrorCode(data.error_code))
            self._rest()
            return
        self._take(data)
        self.start()

    def _take(self, data: Any) -> None:
        for batch in records.batches(data.records or b""):
            assert records.crc_holds(data.records, batch), f"I22: {self!r} was given a broken batch"
            end = batch.base_offset + batch.last_offset_delta + 1
            assert end <= data.high_watermark, f"I22: {self!r} was given {batch} above HW {data.high_watermark}"
            if end > self.position:
                assert batch.base_offset <= self.position, f"I22: {self!r} skips to {batch.base_offset}"
                self.position = end
                self.suite.served(self.name, batch.base_offset, end, batch.leader_epoch, batch.crc)

    def _rest(self) -> None:
        again = partial(self.client.refresh, self.name.topic, self.start)
        self.world.after(self.client.random.randint(BACKOFF // 2, BACKOFF), again)
