"""What the tests of a running cluster share: waiting for what must come, a producer that never rests, reading it all."""

import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.compatibility.differential.wire import Connection
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.supervisor import Supervisor


def controller_of(bootstrap: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    return int(admin.list_topics(timeout=PATIENCE_S).controller_id)


def known_to_all(cluster: Supervisor, name: str) -> bool:
    """Whether every broker that runs says that each partition of the topic has a leader. Creation is answered before:
    a client that asks another broker a moment later may be answered that there is no such topic."""
    return known_at(name, [child.port for child in cluster.children if child.process is not None])


def known_at(name: str, ports: Iterable[int]) -> bool:
    for port in ports:
        with closing(Connection(port)) as connection:
            asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            (found,) = connection.ask("Metadata", 12, **asked).topics
            if found.error_code or any(each.error_code for each in found.partitions):
                return False
    return True


class Topic:
    """One topic as an admin client sees it, asked anew at each look."""

    def __init__(
        self, bootstrap: str, name: str, partitions: int, copies: int = 3, *, leader: int | None = None, **configs: str
    ) -> None:
        """`leader` is the first choice for each partition's; nobody in particular where it is None."""
        self.name = name
        self.count = partitions
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        options = {key.replace("_", "."): value for key, value in configs.items()}
        if leader is None:
            topic = NewTopic(name, partitions, copies, config=options)
        else:
            order = [leader, *(number for number in range(copies) if number != leader)]
            topic = NewTopic(name, partitions, replica_assignment=[order] * partitions, config=options)
        wait_for(lambda: self._made(topic), f"enough brokers for {name}")
        wait_for(lambda: all(len(isr) == copies for isr in self.isrs().values()), f"all replicas of {name}")

    def _made(self, topic: NewTopic) -> bool:
        """False where the controller misses brokers: one that the test before killed may not be registered again."""
        try:
            self._admin.create_topics([topic])[self.name].result(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    def _partitions(self) -> dict[int, Any]:
        try:
            found = self._admin.list_topics(self.name, timeout=5).topics[self.name].partitions
        except KafkaException:
            return {}
        return dict(found) if len(found) == self.count else {}

    def leader(self, partition: int = 0) -> int:
        """-1 where there is none, or nobody answered."""
        found = self._partitions().get(partition)
        return -1 if found is None else found.leader

    def led_by(self, partition: int = 0) -> int:
        """The leader, once there is one and some broker reports it."""
        return wait_for(lambda: self.leader(partition) + 1, f"a leader of {self.name}-{partition}") - 1

    def isrs(self) -> dict[int, list[int]]:
        """An empty list for each partition where nobody answered."""
        found = self._partitions()
        return {index: sorted(found[index].isrs) if index in found else [] for index in range(self.count)}


@dataclass
class Load:
    """Numbers sent one after the other, each to the partition of its remainder, until `stop`. `acknowledged`: number →
    (partition, offset)."""

    bootstrap: str
    topic: Topic
    options: dict[str, Any] = field(default_factory=dict)
    pace_s: float = 0.0005
    digits: int = 0
    """Zeros in front of each number make it so long, at least."""
    acknowledged: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        usual = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": self.bootstrap, **usual, **self.options})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send_on)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            assert self._producer.flush(PATIENCE_S) == 0

    def await_more(self, count: int) -> None:
        """Wait until so many more records are acknowledged."""
        goal = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= goal, f"{count} more acknowledgements")

    def _send_on(self) -> None:
        while not self._stop.wait(self.pace_s):
            try:
                partition, value = self.sent % self.topic.count, b"%0*d" % (self.digits, self.sent)
                self._producer.produce(self.topic.name, value, partition=partition, on_delivery=self._told)
                self.sent += 1
            except BufferError:
                self._producer.poll(0.1)
            self._producer.poll(0)

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged[int(message.value())] = (message.partition(), message.offset())


def stored(bootstrap: str, topic: Topic) -> dict[int, list[tuple[int, int]]]:
    """partition → [(offset, number)] in the order in which a consumer sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "auditor", "enable.auto.commit": False})
    places = [TopicPartition(topic.name, index, 0) for index in range(topic.count)]
    ends = {place.partition: consumer.get_watermark_offsets(place, timeout=PATIENCE_S)[1] for place in places}
    consumer.assign(places)
    found: dict[int, list[tuple[int, int]]] = {index: [] for index in ends}
    while any((found[index][-1][0] + 1 if found[index] else 0) < end for index, end in ends.items()):
        message = consumer.poll(PATIENCE_S)
        assert message is not None, (ends, {index: len(each) for index, each in found.items()})
        assert message.error() is None, message.error()
        found[message.partition()].append((message.offset(), int(message.value())))
    consumer.close()
    return found


def read(bootstrap: str, topic: Topic, level: str = "read_committed", partition: int = 0) -> list[str]:
    """The values there are to the end of the partition, as far as such a reader may go."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # the end is told with the answer of a fetch that found nothing
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic.name, partition, 0)])
    found = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, found
        if message.error() is None:
            found.append(message.value().decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            consumer.close()
            return found


def _as_told(told: tuple[int, int | None], place: tuple[int, int] | None) -> tuple[int, int | None] | None:
    """Where the record is. librdkafka tells no offset of one that it sent again in another batch, after an answer was
    lost: the broker refuses that batch, because it has the records, and so they are acknowledged."""
    return place if place is None or told[1] is not None else (place[0], None)


def assert_exact(load: Load, found: dict[int, list[tuple[int, int]]]) -> None:
    """No acknowledged record is lost or elsewhere than acknowledged, none is there twice, each partition is in order."""
    assert load.failed == []
    for index, records in found.items():
        numbers = [number for _, number in records]
        assert numbers == sorted(set(numbers)), f"partition {index} is out of order or has duplicates"
    places = {number: (index, offset) for index, records in found.items() for offset, number in records}
    assert {
        number: _as_told(told, places.get(number)) for number, told in load.acknowledged.items()
    } == load.acknowledged
    assert len(load.acknowledged) == load.sent
