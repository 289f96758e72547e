"""Client libraries as they are published, against three broker processes: produce, consume, groups, admin."""

import asyncio
import gc
import subprocess
import threading
import uuid
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AsyncNewTopic
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.compatibility.support import known_to_all
from tests.waiting import PATIENCE_S, wait_for

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of kafka-python itself
    import kafka
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewTopic as PlainNewTopic

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TIME = 1_760_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def admin(cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


@pytest.fixture
def topic(cluster, admin, name) -> str:
    """Three partitions, three replicas, known to every broker: some clients take the first answer for the truth."""
    admin.create_topics([NewTopic(name, 3, 3)])[name].result(PATIENCE_S)
    wait_for(lambda: known_to_all(cluster, name), "all to know the topic")
    return name


def consumed(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None, message.error()
        found.append(message)
    return found


# confluent-kafka (librdkafka)


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_carries_everything_of_a_record(cluster, topic, codec):
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "compression.type": codec, "linger.ms": 20}
    )
    told: list[Any] = []
    headers = [("trace", b"\x00\xff"), ("empty", b""), ("null", None), ("trace", b"again")]
    for number in range(300):
        value = None if number == 7 else b"value %d " % number * 20
        producer.produce(
            topic, value, b"key %d" % number, number % 3, on_delivery=lambda *it: told.append(it),
            timestamp=TIME + number, headers=headers,
        )  # fmt: skip
    assert producer.flush(PATIENCE_S) == 0
    assert [error for error, _ in told if error] == []
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "check.crcs": True}
    )
    reader.assign([TopicPartition(topic, index, 0) for index in range(3)])
    found = {message.key(): message for message in consumed(reader, 300)}
    reader.close()
    for number in range(300):
        message = found[b"key %d" % number]
        assert message.value() == (None if number == 7 else b"value %d " % number * 20)
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, TIME + number)
        assert message.headers() == headers
        assert (message.partition(), message.offset()) == (number % 3, number // 3)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_confluent_consumers_share_a_topic_and_take_over(cluster, topic, strategy):
    produced(cluster, topic, range(90))
    options = {
        "bootstrap.servers": cluster.bootstrap, "group.id": f"{topic}-{strategy}", "auto.offset.reset": "earliest",
        "partition.assignment.strategy": strategy, "enable.auto.commit": False,
    }  # fmt: skip
    members = [Consumer(options), Consumer(options)]
    seen: set[bytes] = set()

    def shared() -> bool:
        for member in members:
            for message in member.consume(100, 0.2):
                assert message.error() is None, message.error()
                seen.add(message.value())
        shares = [{each.partition for each in member.assignment()} for member in members]
        return all(shares) and not shares[0] & shares[1] and len(shares[0] | shares[1]) == 3

    def at_the_end() -> bool:
        places = [place for member in members for place in member.position(member.assignment())]
        return [place.offset for place in places] == [30, 30, 30]

    for member in members:
        member.subscribe([topic])
    wait_for(lambda: shared() and at_the_end(), "both have partitions and have read them, who had them before or not")
    assert len(seen) == 90
    for member in members:
        member.commit(asynchronous=False)
    members[0].close()
    wait_for(lambda: (members[1].consume(10, 0.2), len(members[1].assignment()) == 3)[1], "the other takes over")
    places = members[1].committed(members[1].assignment(), timeout=PATIENCE_S)
    assert sorted(place.offset for place in places) == [30, 30, 30]
    members[1].close()


def test_confluent_admin(cluster, admin, topic):
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(PATIENCE_S)
    wait_for(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5, "five partitions")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_S)
    asked = ConfigResource(ResourceType.TOPIC, topic)

    def retention() -> str:
        return str(admin.describe_configs([asked])[asked].result(PATIENCE_S)["retention.ms"].value)

    wait_for(lambda: retention() == "3600000", "the option at whichever broker is asked")
    produced(cluster, topic, range(10))
    place = TopicPartition(topic, 0, 2)
    assert admin.delete_records([place])[place].result(PATIENCE_S).low_watermark == 2
    group = f"{topic}-group"
    committed = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 1, 3)])
    admin.alter_consumer_group_offsets([committed])[group].result(PATIENCE_S)
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S)
    assert [(each.partition, each.offset) for each in found.topic_partitions] == [(1, 3)]
    assert group in {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert admin.describe_consumer_groups([group])[group].result(PATIENCE_S).state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert len(admin.describe_cluster().result(PATIENCE_S).nodes) == 3
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def produced(cluster, topic: str, numbers: Iterable[int]) -> None:
    """Numbers as values, spread over three partitions."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in numbers:
        producer.produce(topic, b"%d" % number, partition=number % 3)
    assert producer.flush(PATIENCE_S) == 0


# aiokafka


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_produces_and_consumes(cluster, topic, codec):
    async def story() -> list[Any]:
        compression = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, enable_idempotence=True, compression_type=compression
        )
        async with producer:
            for number in range(60):
                headers = [("number", b"%d" % number)]
                await producer.send(topic, b"%d" % number * 30, b"k", number % 3, TIME + number, headers)
        reader = AIOKafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        async with reader:
            return [await asyncio.wait_for(reader.getone(), PATIENCE_S) for _ in range(60)]

    found = {int(dict(record.headers)["number"]): record for record in asyncio.run(story())}
    assert {number: (record.value, record.timestamp) for number, record in found.items()} == {
        number: (b"%d" % number * 30, TIME + number) for number in range(60)
    }


def test_two_aiokafka_consumers_join_at_once(cluster, topic):
    produced(cluster, topic, range(60))

    async def member() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap, group_id=f"{topic}-aio", auto_offset_reset="earliest",
            session_timeout_ms=45_000,
        )  # fmt: skip
        await consumer.start()
        return consumer

    async def story() -> set[bytes]:
        members = await asyncio.gather(member(), member())
        seen: set[bytes] = set()

        def shared() -> bool:
            first, second = ({place.partition for place in one.assignment()} for one in members)
            return bool(first and second) and first | second == {0, 1, 2} and not first & second

        async with asyncio.timeout(PATIENCE_S):
            while len(seen) < 60 or not shared():
                for one in members:
                    for records in (await one.getmany(timeout_ms=100)).values():
                        seen.update(record.value for record in records)
        for one in members:
            await one.commit()
        for one in members:
            await one.stop()
        return seen

    assert len(asyncio.run(story())) == 60


def test_aiokafka_admin(cluster, name):
    async def story() -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await client.start()
        try:
            await client.create_topics([AsyncNewTopic(name, 2, 3)])
            await asyncio.to_thread(wait_for, lambda: known_to_all(cluster, name), "all to know the topic")
            assert name in await client.list_topics()
            await client.delete_topics([name])
        finally:
            await client.close()

    asyncio.run(story())


# kafka-python; its snappy would need a library of its own.


@pytest.fixture
def swept() -> Iterator[None]:
    """kafka-python leaves the socket pair of its event loop to the garbage collector."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
def test_kafka_python_produces_and_consumes(cluster, topic, codec):
    compression = None if codec == "none" else codec
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap, acks="all", enable_idempotence=True, compression_type=compression
    )
    sent = [
        producer.send(topic, b"%d" % number * 30, b"k%d" % number, [("h", b"v")], number % 3, TIME + number)
        for number in range(60)
    ]
    places = {future.get(PATIENCE_S).offset for future in sent}
    assert places == set(range(20))
    producer.close()
    reader = kafka.KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    found = {record.key: record for _, record in zip(range(60), reader, strict=False)}
    reader.close()
    assert {key: record.value for key, record in found.items()} == {
        b"k%d" % number: b"%d" % number * 30 for number in range(60)
    }
    assert {record.headers[0] for record in found.values()} == {("h", b"v")}


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("swept")
def test_two_kafka_python_consumers_join_at_once(cluster, topic):
    """Each in its own thread, as the library wants it; a barrier starts them together.

    A poll outlasts a rebalance: kafka-python 3.0.12 may forget the answer to its SyncGroup when a poll ends before.
    """
    produced(cluster, topic, range(60))
    together, done = threading.Barrier(2), threading.Event()
    seen: list[bytes] = []
    shares: dict[int, set[int]] = {}

    def member(number: int) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=cluster.bootstrap,
            group_id=f"{topic}-plain",
            auto_offset_reset="earliest",
            heartbeat_interval_ms=300,
            session_timeout_ms=45_000,
        )
        consumer.subscribe([topic])
        together.wait()
        while not done.is_set():
            for records in consumer.poll(timeout_ms=4000).values():
                seen.extend(record.value for record in records)
            shares[number] = {place.partition for place in consumer.assignment()}
        consumer.close()

    threads = [threading.Thread(target=member, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()

    def shared() -> bool:
        first, second = shares.get(0, set()), shares.get(1, set())
        return bool(first and second) and first | second == {0, 1, 2} and not first & second and len(set(seen)) == 60

    try:
        wait_for(shared, "both have partitions and have read everything")
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("swept")
def test_kafka_python_admin(cluster, name):
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    client.create_topics([PlainNewTopic(name, 2, 3)])
    wait_for(lambda: name in client.list_topics(), "the topic")
    client.delete_topics([name])
    client.close()


# kcat


def test_kcat_produces_consumes_and_joins_groups(cluster, topic):
    def kcat(*arguments: str, given: str = "") -> str:
        command = ["kcat", "-b", cluster.bootstrap, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = "".join(f"k{number}:v{number}\n" for number in range(50))
    kcat("-P", "-t", topic, "-K:", "-z", "snappy", "-X", "acks=all", given=lines)
    shown = kcat("-C", "-t", topic, "-e", "-q", "-f", "%k:%s\n")
    assert sorted(shown.splitlines()) == sorted(lines.splitlines())
    assert "3 brokers" in kcat("-L")
    grouped = kcat("-G", f"{topic}-kcat", topic, "-c", "50", "-q", "-X", "auto.offset.reset=earliest", "-f", "%k:%s\n")
    assert sorted(grouped.splitlines()) == sorted(lines.splitlines())
