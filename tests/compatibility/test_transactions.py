"""Transactions of published clients against three broker processes: commit, abort, fencing, time-outs, failover."""

import asyncio
import subprocess
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AsyncPartition
from aiokafka.errors import KafkaError, ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests import jvm
from tests.compatibility.differential.batches import EPOCH_2023, batch
from tests.compatibility.differential.wire import Connection
from tests.compatibility.support import Topic, read
from tests.waiting import PATIENCE_S, wait_for
from tidelog.shell.transport import Admin
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.transactions.transaction_admin import DescribeTransactionsRequest
from tidelog.wire.records import TRANSACTIONAL

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

FENCED = -144
"""librdkafka's own code for a producer that another one replaced."""


@pytest.fixture
def name() -> str:
    return f"tx-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster, name) -> Topic:
    return Topic(cluster.bootstrap, name, 2, min_insync_replicas="2")


def producer(cluster: Any, name: str, **options: Any) -> Producer:
    usual = {"transactional.id": name, "linger.ms": 1, "log_level": 0, "transaction.timeout.ms": 600_000}
    made = Producer({"bootstrap.servers": cluster.bootstrap, **usual, **options})
    made.init_transactions(PATIENCE_S)
    return made


def write(sender: Producer, topic: Topic, *values: str) -> None:
    """Each value to both partitions, all of them in the log."""
    for value in values:
        for partition in range(topic.count):
            sender.produce(topic.name, value.encode(), partition=partition)
    assert sender.flush(PATIENCE_S) == 0


def state(cluster: Any, name: str) -> str:
    """As the id's coordinator says, whichever broker that is."""
    with Admin(cluster.bootstrap) as admin:
        for broker in range(3):
            answer = admin.ask(DescribeTransactionsRequest(transactional_ids=[name]), broker)
            if not answer.transaction_states[0].error_code:
                return str(answer.transaction_states[0].transaction_state)
    return "nobody knows"


def coordinator_of(cluster: Any, name: str) -> int:
    with Admin(cluster.bootstrap) as admin:

        def found() -> int:
            answer = admin.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[name]))
            return int(answer.coordinators[0].node_id) + 1

        return wait_for(found, "a coordinator") - 1


# confluent-kafka (librdkafka; the older protocol)


def test_confluent_commits_and_aborts(cluster, topic, name):
    sender = producer(cluster, name)
    for number in range(6):
        sender.begin_transaction()
        write(sender, topic, f"{number}a", f"{number}b")
        if number % 2:
            sender.abort_transaction(PATIENCE_S)
        else:
            sender.commit_transaction(PATIENCE_S)
    expected = [f"{number}{letter}" for number in (0, 2, 4) for letter in "ab"]
    for partition in range(2):
        assert wait_for(
            lambda at=partition: read(cluster.bootstrap, topic, partition=at) == expected, "the last marker"
        )
        assert len(read(cluster.bootstrap, topic, "read_uncommitted", partition)) == 12


def test_readers_of_committed_records_wait_for_an_open_transaction(cluster, topic, name):
    sender, other = producer(cluster, name), producer(cluster, f"{name}-other")
    sender.begin_transaction()
    write(sender, topic, "open")
    other.begin_transaction()
    write(other, topic, "behind it")
    other.commit_transaction(PATIENCE_S)
    assert read(cluster.bootstrap, topic) == []
    assert read(cluster.bootstrap, topic, "read_uncommitted") == ["open", "behind it"]
    sender.commit_transaction(PATIENCE_S)
    assert wait_for(lambda: read(cluster.bootstrap, topic) == ["open", "behind it"], "both")


def test_a_second_producer_fences_the_first(cluster, topic, name):
    first = producer(cluster, name)
    first.begin_transaction()
    write(first, topic, "never")
    second = producer(cluster, name)
    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(PATIENCE_S)
    assert caught.value.args[0].code() == FENCED
    second.begin_transaction()
    write(second, topic, "yes")
    second.commit_transaction(PATIENCE_S)
    assert wait_for(lambda: read(cluster.bootstrap, topic) == ["yes"], "the second's record")


def test_a_transaction_that_takes_too_long_is_aborted(cluster, topic, name):
    sender = producer(cluster, name, **{"transaction.timeout.ms": 1_000})
    sender.begin_transaction()
    write(sender, topic, "too late")
    assert wait_for(lambda: state(cluster, name) == "CompleteAbort", "its abort")
    with pytest.raises(KafkaException):
        sender.commit_transaction(PATIENCE_S)
    assert read(cluster.bootstrap, topic) == []


def test_positions_are_committed_with_the_transaction_or_not_at_all(cluster, topic, name):
    sender = producer(cluster, name)
    group = f"{name}-group"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    place = TopicPartition(topic.name, 0, 7)
    for offset, commit in ((7, True), (9, False)):
        sender.begin_transaction()
        write(sender, topic, f"at {offset}")
        sender.send_offsets_to_transaction(
            [TopicPartition(topic.name, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
        )
        (sender.commit_transaction if commit else sender.abort_transaction)(PATIENCE_S)
    assert wait_for(lambda: consumer.committed([place], timeout=PATIENCE_S)[0].offset == 7, "the first position")
    consumer.close()


def test_a_coordinator_dies_and_another_carries_on(cluster, topic, name):
    """Also what it had decided, and the transaction that is open."""
    sender = producer(cluster, name)
    expected = []
    for number in range(3):
        sender.begin_transaction()
        write(sender, topic, f"{number}a")
        coordinator = coordinator_of(cluster, name)
        cluster.kill(coordinator)
        write(sender, topic, f"{number}b")
        sender.commit_transaction(PATIENCE_S)
        expected += [f"{number}a", f"{number}b"]
        cluster.start_broker(coordinator)
        wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all replicas")
    for partition in range(2):
        assert wait_for(lambda at=partition: read(cluster.bootstrap, topic, partition=at) == expected, "all records")


# aiokafka


def test_aiokafka_commits_aborts_and_is_fenced(cluster, topic, name):
    async def story() -> list[bytes]:
        first = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=name)
        await first.start()
        async with first.transaction():
            await first.send_and_wait(topic.name, b"kept", partition=0)
        await first.begin_transaction()
        await first.send_and_wait(topic.name, b"dropped", partition=0)
        await first.abort_transaction()
        await first.begin_transaction()
        await first.send_and_wait(topic.name, b"zombie", partition=0)
        second = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=name)
        await second.start()
        with pytest.raises(ProducerFenced):
            await first.commit_transaction()
        async with second.transaction():
            await second.send_and_wait(topic.name, b"last", partition=0)
            await second.send_offsets_to_transaction({AsyncPartition(topic.name, 0): 3}, f"{name}-async")
        await asyncio.gather(first.stop(), second.stop())
        reader = AIOKafkaConsumer(
            bootstrap_servers=cluster.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest",
            group_id=f"{name}-async", enable_auto_commit=False,
        )  # fmt: skip
        await reader.start()
        reader.assign([AsyncPartition(topic.name, 0)])
        await reader.seek_to_beginning()
        found = [(await asyncio.wait_for(reader.getone(), PATIENCE_S)).value for _ in range(2)]
        async with asyncio.timeout(PATIENCE_S):  # its marker is written after the commit was answered
            while await reader.committed(AsyncPartition(topic.name, 0)) != 3:
                pass
        await reader.stop()
        return found

    assert asyncio.run(story()) == [b"kept", b"last"]


def test_aiokafkas_transaction_that_takes_too_long_is_aborted(cluster, topic, name):
    async def story() -> None:
        slow = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, transactional_id=name, transaction_timeout_ms=1_000
        )
        await slow.start()
        await slow.begin_transaction()
        with suppress(KafkaError):  # so slow that not even this was in time
            await slow.send_and_wait(topic.name, b"too late", partition=0)
        await asyncio.to_thread(wait_for, lambda: state(cluster, name) == "CompleteAbort", "its abort")
        with pytest.raises(KafkaError):
            await slow.commit_transaction()
        await slow.stop()
        again = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=name)
        await again.start()
        async with again.transaction():
            await again.send_and_wait(topic.name, b"in time", partition=0)
        await again.stop()

    asyncio.run(story())
    assert wait_for(lambda: read(cluster.bootstrap, topic), "the second's record") == ["in time"]


# Java (protocol 2). What it tells is what it tells of a real Kafka 4.3.1.


TOLD = """\
begin before the id is there: IllegalStateException
init: done
commit: done
abort: done
commit a position: done
abort a position: done
position: 5
commit nothing: done
commit when fenced: ProducerFencedException
begin when fenced: ProducerFencedException
commit of the next: done
commit too late: InvalidTxnStateException
abort too late: KafkaException
write too late: InvalidProducerEpochException
abort what was refused: done
init with too much time: KafkaException
"""


def test_java_commits_aborts_is_fenced_and_comes_too_late(cluster, kafka_libs, topic):
    source = Path(__file__).parent / "java" / "Transactions.java"
    command = ["java", *jvm.KAFKA, "-cp", kafka_libs, str(source), cluster.bootstrap, topic.name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S * 3, check=False)
    assert (done.returncode, done.stdout) == (0, TOLD), done.stderr
    assert wait_for(lambda: read(cluster.bootstrap, topic) == ["kept", "of the next"], "the last marker")


# Java's command


def test_kafkas_command_finds_and_aborts_a_transaction_that_hangs(cluster, kafka_tool, topic, name):
    sender = producer(cluster, name)
    sender.begin_transaction()
    write(sender, topic, "hangs")
    bootstrap = ["--bootstrap-server", cluster.bootstrap]
    listed = kafka_tool("org.apache.kafka.tools.TransactionsCommand", *bootstrap, "list")
    assert any(line.split()[0] == name and line.split()[3] == "Ongoing" for line in listed.splitlines()[1:])
    described = kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", *bootstrap, "describe", "--transactional-id", name
    )
    assert f"{topic.name}-0" in described
    producers = kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", *bootstrap, "describe-producers", "--topic", topic.name,
        "--partition", "0",
    )  # fmt: skip
    assert producers.splitlines()[1].split()[-1] == "0", "where it begins"
    kafka_tool(
        "org.apache.kafka.tools.TransactionsCommand", *bootstrap, "abort", "--topic", topic.name, "--partition", "0",
        "--start-offset", "0",
    )  # fmt: skip
    other = producer(cluster, f"{name}-other")
    other.begin_transaction()
    write(other, topic, "goes on")
    other.commit_transaction(PATIENCE_S)
    assert wait_for(lambda: read(cluster.bootstrap, topic) == ["goes on"], "what came behind it")


def test_kafkas_command_finds_a_transaction_that_nobody_will_end(cluster, kafka_tool, topic, name):
    """No coordinator knows it: such as a leader without verification takes, from a producer that never added it."""
    verification = "transaction.partition.verification.enable"
    configs = ["--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "brokers", "--entity-default"]
    kafka_tool("kafka.admin.ConfigCommand", *configs, "--add-config", f"{verification}=false")
    producer_id = 4_711
    records = batch(b"hangs", attributes=TRANSACTIONAL, producer_id=producer_id, producer_epoch=0, base_sequence=0)
    data = [{"name": topic.name, "partition_data": [{"index": 0, "records": records}]}]
    with closing(Connection(cluster.children[topic.led_by()].port)) as leader:

        def taken() -> bool:
            answer = leader.ask("Produce", 9, transactional_id=name, acks=-1, timeout_ms=10_000, topic_data=data)
            return bool(answer.responses[0].partition_responses[0].error_code == 0)

        wait_for(taken, "a leader that does not verify")
    kafka_tool("kafka.admin.ConfigCommand", *configs, "--delete-config", verification)
    command = ["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", cluster.bootstrap]
    sender = producer(cluster, f"{name}-known")
    sender.begin_transaction()
    sender.produce(topic.name, b"known", partition=1, timestamp=EPOCH_2023)
    assert sender.flush(PATIENCE_S) == 0
    found = [line.split() for line in kafka_tool(*command, "find-hanging", "--topic", topic.name).splitlines()[1:]]
    assert [row[:6] for row in found] == [[topic.name, "0", str(producer_id), "0", "-1", "0"]]
    kafka_tool(*command, "abort", "--topic", topic.name, "--partition", "0", "--start-offset", "0")
    assert kafka_tool(*command, "find-hanging", "--broker-id", "0").splitlines()[1:] == []
    kafka_tool(*command, "forceTerminateTransaction", "--transactionalId", f"{name}-known")
    with pytest.raises(KafkaException):
        sender.commit_transaction(PATIENCE_S)
    assert wait_for(lambda: state(cluster, f"{name}-known") == "Empty", "its end")
    for partition, value in ((0, "hangs"), (1, "known")):
        assert read(cluster.bootstrap, topic, partition=partition) == []
        assert read(cluster.bootstrap, topic, "read_uncommitted", partition) == [value]
