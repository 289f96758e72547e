"""A producing application: bursts of unique values, and the outcome of each.

The outcome of a batch is exactly one of: acknowledged, refused (for good, by the broker), indeterminate (no response in
time: it may be in the log or not).

I26, in part: until a partition has acknowledged a producer's ID and epoch, only one of their batches is in flight.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.client.backoff import Entropy
from tidelog.client.options import MAX_RETRIES, Address, ProducerOptions
from tidelog.client.producer import Producer as ProducerMachine
from tidelog.client.results import Delivery
from tidelog.client.sending.batch import ProducerBatch
from tidelog.errors import RETRIABLE, ErrorCode
from tidelog.model import Time, TopicPartition
from tidelog.sim.clients.process import Process
from tidelog.sim.clients.seen_records import SeenRecords
from tidelog.sim.faults import MILLI
from tidelog.sim.world import World
from tidelog.wire.messages.records.produce import PartitionProduceResponse
from tidelog.wire.records import header

INDETERMINATE = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE})
ACKS_ALL = -1
TOMBSTONES = 0.15


class EndedBatch(NamedTuple):
    """A batch as it was acknowledged: base offset (-1 if no broker reported it) and CRC."""

    name: TopicPartition
    base: int
    records: int
    crc: int


class WatchedProducer(ProducerMachine):
    """The producer itself, with access to what it does not report to applications: batches and their sequences."""

    def __init__(self, bootstrap: Sequence[Address], options: ProducerOptions, entropy: Entropy) -> None:
        super().__init__(bootstrap, options, entropy)
        self.answers: list[ErrorCode] = []
        self.acknowledged: list[EndedBatch] = []
        self.refused: list[tuple[TopicPartition, ErrorCode, bool]] = []
        self.renumbered: set[ProducerBatch] = set()
        self.may_repeat: list[Delivery] = []
        self.known: set[tuple[TopicPartition, int, int]] = set()
        """Partitions that acknowledged a producer ID and epoch."""

    def _send_batches(self, node: int, batches: Sequence[ProducerBatch], now: Time) -> None:
        self.renumbered.update(batch for batch in batches if batch.was_sent and batch.sent_as != batch.numbers)
        super()._send_batches(node, batches, now)
        for batch in batches if self.sequences is not None else ():
            check_first(batch, self._in_flight, self.known)

    def _handle_batch_answer(
        self, batch: ProducerBatch, code: ErrorCode, answer: PartitionProduceResponse | None, now: Time
    ) -> None:
        """Record a producer that resets its sequences although they were in order.

        The broker's refusal is then judged, unless earlier batches had failed.
        """
        self.answers.append(code)
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.known.add(identity(batch))
        numbers = self.sequences.of(batch.partition) if self.sequences is not None else None
        is_new = numbers is None or numbers.last_acknowledged < 0 or batch.base_sequence == 0
        is_settled = numbers is not None and numbers.is_settled
        super()._handle_batch_answer(batch, code, answer, now)
        if numbers is not None and is_settled and numbers.must_restart:
            self.refused.append((batch.partition, code, is_new))

    def _end(self, batch: ProducerBatch, deliveries: Sequence[Delivery]) -> None:
        if not batch.is_done and batch in self.renumbered:
            self.may_repeat += deliveries
        if not batch.is_done and deliveries[0].is_acknowledged:
            batch.stamp(*batch.sent_as)
            crc = header(batch.encoded(0)).crc
            self.acknowledged.append(EndedBatch(batch.partition, deliveries[0].offset, batch.count, crc))
        super()._end(batch, deliveries)


def identity(batch: ProducerBatch) -> tuple[TopicPartition, int, int]:
    """Return its partition, and the producer ID and epoch under which it was last sent."""
    producer_id, epoch, _ = batch.sent_as
    return batch.partition, producer_id, epoch


def check_first(batch: ProducerBatch, flying: Iterable[ProducerBatch], known: Collection[Any]) -> None:
    """I26: check that no unacknowledged batch of the same identity is in flight.

    If the first batch failed, a broker that knows nothing of the producer would accept another one as the first. A
    batch that timed out is reported as failed and may still be in flight: the next one is sent, as by the Java client.
    """
    if identity(batch) not in known:
        together = [other for other in flying if identity(other) == identity(batch) and not other.is_done]
        assert len(together) == 1, f"I26: {together} are on their way together, and nothing was acknowledged yet"


@dataclass(frozen=True, slots=True)
class Pace:
    """`gap` is the time between two bursts, in microseconds; `burst` the number of records; no burst begins while
    `limit` records are in flight.
    """

    gap: tuple[int, int] = (50 * MILLI, 400 * MILLI)
    burst: tuple[int, int] = (1, 6)
    limit: int = 12


class Producer:
    """Records acknowledged with acks=all are `promised`, except on `free` topics."""

    def __init__(
        self,
        world: World,
        seen_records: SeenRecords,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        options: ProducerOptions | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.options = options or ProducerOptions(client_id=name, linger_ms=0, request_timeout_ms=5_000)
        self.process = Process(
            world, name, lambda bootstrap, entropy: WatchedProducer(bootstrap, self.options, entropy), self._turned
        )
        self.world = world
        self.suite = seen_records.suite
        self.seen_records = seen_records
        self.partitions = list(partitions)
        self.pace = pace or Pace()
        is_free = all(name.topic in seen_records.free for name in partitions)
        self.promised = self.options.required_acks == ACKS_ALL and not is_free
        self.acked = 0
        self.failed_count = 0
        self.stopped = False
        self._values = 0
        self._open: dict[int, tuple[TopicPartition, bytes]] = {}
        self._indeterminate: set[TopicPartition] = set()
        self._first_acked: dict[TopicPartition, int] = {}

    def __repr__(self) -> str:
        return f"<producer {self.process.name}: {self.acked} acked, {len(self._open)} under way>"

    @property
    def name(self) -> TopicPartition:
        """The first of its partitions."""
        return self.partitions[0]

    @property
    def idle(self) -> bool:
        return not self._open

    def start(self) -> None:
        if self.stopped:
            return
        if len(self._open) < self.pace.limit:
            for _ in range(self.process.random.randint(*self.pace.burst)):
                self.send()
        self.process.later(self.pace.gap, self.start)

    def send(self, value: bytes | None = None, name: TopicPartition | None = None) -> None:
        """Send one record, by default with a new value to one of its partitions."""
        name = name or self.process.random.choice(self.partitions)
        value = self._value() if value is None else value
        self.seen_records.send(name, value, once=self.options.is_idempotent)
        now = self.process.now()
        ticket, effects = self.process.machine.send(name.topic, value, now, partition=name.partition)
        self._open[ticket] = (name, value)
        self.process.carry_out(effects)

    def _value(self) -> bytes:
        self._values += 1
        return f"{self.process.name}-{self._values}".encode() + b"." * self.process.random.choice((0, 0, 20, 300))

    def _turned(self) -> None:
        machine = self.process.machine
        for answer in machine.answers:
            self.world.count(f"produce: {answer.name}")
        for name, code, is_new in machine.refused:
            self.process.note("refused", f"{name} {code.name}")
            self.world.count(f"producer begins anew: {code.name}")
            if self.promised:
                self.suite.refused(self.world, name, code, is_new=is_new)
        for ended in machine.acknowledged:
            if self.promised and ended.base >= 0:
                self.suite.acknowledged(*ended)
        for delivery in machine.may_repeat:
            self.seen_records.may_repeat(*self._open[delivery.ticket])
        machine.answers.clear()
        machine.refused.clear()
        machine.acknowledged.clear()
        machine.may_repeat.clear()
        for delivery in machine.take_deliveries():
            self._delivered(delivery)

    def _delivered(self, delivery: Delivery) -> None:
        name, value = self._open.pop(delivery.ticket)
        self.process.note("delivery", f"{delivery.error.name} {name} {value[:24]!r} {delivery.offset}")
        self.world.count(f"delivery: {delivery.error.name}")
        if delivery.is_acknowledged:
            self._first_acked.setdefault(name, delivery.ticket)
            self.acked += 1
            if self.promised:
                self.seen_records.acknowledge(name, value, delivery.offset)
            return
        self.failed_count += 1
        if delivery.error in INDETERMINATE:
            self._indeterminate.add(name)
        elif self.promised and not self._may_be_refused(name, delivery.error):
            is_new = delivery.ticket < self._first_acked.get(name, delivery.ticket + 1)
            self.suite.refused(self.world, name, delivery.error, is_new=is_new)

    def _may_be_refused(self, name: TopicPartition, code: ErrorCode) -> bool:
        """Whether a refusal is legitimate.

        It is after all retries, if the broker's clock is wrong, or if earlier batches failed that may have been
        appended.
        """
        was_tried = code in RETRIABLE and self.options.retries < MAX_RETRIES
        is_late = code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and name in self._indeterminate
        return was_tried or is_late or code is ErrorCode.INVALID_TIMESTAMP


class KeyedProducer(Producer):
    """A producer of `keys` keys: each record replaces the previous one of its key; some are tombstones.

    Its batches fit into the smallest segments.
    """

    def __init__(
        self,
        world: World,
        seen_records: SeenRecords,
        name: str,
        partitions: Sequence[TopicPartition],
        *,
        keys: int,
        pace: Pace,
    ) -> None:
        options = ProducerOptions(client_id=name, linger_ms=20, batch_size=400, request_timeout_ms=3_000)
        super().__init__(world, seen_records, name, partitions, options=options, pace=pace)
        self.keys = [b"key-%d" % number for number in range(keys)]

    def send(self, value: bytes | None = None, name: TopicPartition | None = None) -> None:
        random, now = self.process.random, self.process.now()
        name = name or random.choice(self.partitions)
        value = self._value() if value is None else value
        key, is_tombstone = random.choice(self.keys), random.random() < TOMBSTONES
        self.seen_records.send(name, value, once=True)
        ticket, effects = self.process.machine.send(
            name.topic, None if is_tombstone else value, now, key=key, partition=name.partition
        )
        self._open[ticket] = (name, value)
        self.process.carry_out(effects)
