"""Consumers that lose the right to read a topic while they read it: they report it, and go on when it is back."""

from contextlib import closing
from threading import Thread

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compatibility.differential.wire import Connection
from tests.compatibility.security import clients, matrix
from tests.compatibility.security.matrix import Ground, Row, Way, acl
from tests.waiting import PATIENCE_S, wait_for
from tidelog.security.acls import AclOperation, PatternType, ResourceType

READ = acl("alice", AclOperation.READ, ResourceType.TOPIC, "alice.", PatternType.PREFIXED)
WAY = Way("SASL_SSL", "PLAIN")
TOPICS = ("alice.librdkafka", "alice.java")
COUNT = 10


class Rights:
    """What alice may do with topics whose names begin with hers. She can always write, and so see them."""

    def __init__(self, port):
        self._port = port

    def take(self):
        names = {"resource_type": "resource_type_filter", "resource_name": "resource_name_filter"}
        names |= {
            "resource_pattern_type": "pattern_type_filter",
            "principal": "principal_filter",
            "host": "host_filter",
        }
        with closing(Connection(self._port)) as connection:
            removed = connection.ask("DeleteAcls", 3, filters=[{names.get(key, key): READ[key] for key in READ}])
        assert len(removed.filter_results[0].matching_acls) == 1

    def give(self):
        with closing(Connection(self._port)) as connection:
            assert connection.ask("CreateAcls", 3, creations=[READ]).results[0].error_code == 0


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return Ground(tmp_path_factory.mktemp("ground"))


@pytest.fixture(scope="module")
def ports(tmp_path_factory, ground):
    with matrix.tidelog(tmp_path_factory.mktemp("lost") / "tidelog", ground, list(TOPICS)) as found:
        yield found


@pytest.fixture
def send(ports):
    """Anonymous clients of this port may do everything."""
    producer = Producer({"bootstrap.servers": f"{matrix.HOST}:{ports['PLAINTEXT']}"})

    def sent(topic, numbers):
        for number in numbers:
            producer.produce(topic, str(number), partition=0)
        assert producer.flush(PATIENCE_S) == 0

    return sent


@pytest.fixture
def rights(ports):
    return Rights(ports["PLAINTEXT"])


def test_librdkafka_reports_it_and_goes_on(ports, ground, send, rights):
    topic, errors, found = TOPICS[0], [], []
    options = {
        "bootstrap.servers": f"{matrix.HOST}:{ports['SASL_SSL']}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": matrix.PASSWORDS["alice"],
        "ssl.ca.location": str(ground.trusted),
        "group.id": "readers",
        "auto.offset.reset": "earliest",
    }
    with closing(Consumer(options)) as consumer:
        consumer.subscribe([topic])

        def has(count):
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(int(message.value()))
            elif message is not None:
                errors.append(message.error().code())
            return len(found) == count

        send(topic, range(COUNT))
        wait_for(lambda: has(COUNT), "the first records")
        assert errors == []
        rights.take()

        def is_refused():
            send(topic, [COUNT + refused_at[0]])
            refused_at[0] += 1
            has(-1)
            return errors

        refused_at = [0]
        wait_for(is_refused, "the refusal")
        assert set(errors) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}
        rights.give()
        total = COUNT + refused_at[0] + COUNT
        send(topic, range(COUNT + refused_at[0], total))
        wait_for(lambda: has(total), "what was written meanwhile, and later")
    assert found == list(range(total))
    assert set(errors) == {KafkaError.TOPIC_AUTHORIZATION_FAILED}


def test_javas_console_consumer_reports_it_and_the_next_one_goes_on(ports, ground, send, rights, tool_server, tmp_path):
    topic, group = TOPICS[1], "console"
    attempt = ground.attempt(Row("Java", WAY, "nothing"))
    file = tmp_path / "client.properties"
    options = {**clients.java_options(attempt, tmp_path), "auto.commit.interval.ms": "100", "group.id": group}
    options["auto.offset.reset"] = "earliest"
    file.write_text("".join(f"{name}={text}\n" for name, text in options.items()))
    place = ("--bootstrap-server", f"{matrix.HOST}:{ports['SASL_SSL']}", "--command-config", str(file))
    done = []

    def consume(count):
        limits = ("--max-messages", str(count), "--timeout-ms", "90000")
        done.append(
            tool_server.run("org.apache.kafka.tools.consumer.ConsoleConsumer", *place, "--topic", topic, *limits)
        )

    admin = AdminClient({"bootstrap.servers": f"{matrix.HOST}:{ports['PLAINTEXT']}"})

    def committed():
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
        (found,) = admin.list_consumer_group_offsets([asked])[group].result(PATIENCE_S).topic_partitions
        return found.offset

    send(topic, range(COUNT))
    consuming = Thread(target=consume, args=[10 * COUNT])
    consuming.start()
    try:
        wait_for(lambda: committed() == COUNT, "the positions")
        rights.take()
    finally:
        consuming.join()
    assert records(done[0]) == list(range(COUNT))
    said = done[0].stdout + done[0].stderr
    assert f"TopicAuthorizationException: Not authorized to access topics: [{topic}]" in said
    rights.give()
    send(topic, range(COUNT, 2 * COUNT))
    consume(COUNT)
    assert (done[1].returncode, records(done[1])) == (0, list(range(COUNT, 2 * COUNT)))


def records(done):
    """Without the log lines of the tool."""
    return [int(line) for line in done.stdout.splitlines() if line.isdigit()]
