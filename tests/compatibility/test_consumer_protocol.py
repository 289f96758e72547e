"""Groups of the consumer protocol (KIP-848) with published clients and Kafka's own tools against three broker processes."""

import json
import re
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from tests import jvm
from tests.compatibility.support import Load, Topic, known_to_all
from tests.output import lines_of
from tests.processes import Processes
from tests.waiting import PATIENCE_S, wait_for
from tidelog.cli.main import run
from tidelog.shell.supervisor import Supervisor
from tidelog.shell.transport import Admin
from tidelog.shell.transport import Consumer as Plain
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest

PARTITIONS = 6
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
OPTIONS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "group.consumer.heartbeat.interval.ms": "2000",
    "group.consumer.min.heartbeat.interval.ms": "2000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}
"""librdkafka waits no longer for the answer to a heartbeat than for the next one, and never asks again for a share whose
answer it has given up (Kafka tells it once, too): a pause as long as the interval can leave a group in its midst."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    with Processes(tmp_path_factory.mktemp("cluster"), brokers=3, port=0, overrides=OPTIONS) as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"g{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster, name) -> Topic:
    made = Topic(cluster.bootstrap, f"t-{name}", PARTITIONS, min_insync_replicas="2")
    wait_for(lambda: known_to_all(cluster, made.name), "all, the coordinators among them, to know the topic")
    return made


class Reader:
    """A consumer that polls on a thread of its own until it is closed. It commits what it has read as it goes."""

    def __init__(self, bootstrap: str, group: str, *topics: str, protocol: str = "consumer", **options: Any) -> None:
        usual = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
            "log_level": 0,
        }
        if protocol == "classic":
            usual |= {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 400}
        self.consumer = Consumer({**usual, **options})
        self.consumer.subscribe(list(topics))
        self.read: list[tuple[int, int, bytes]] = []
        self.failures: list[str] = []
        self.has: set[int] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self.consumer.close()

    def _read_on(self) -> None:
        while not self._stop.is_set():
            message = self.consumer.poll(0.05)
            self.has = {place.partition for place in self.consumer.assignment()}  # another thread may not ask
            if message is not None and message.error() is None:
                self.read.append((message.partition(), message.offset(), message.value()))
            elif message is not None and message.error().fatal():
                self.failures.append(str(message.error()))


def fill(cluster: Any, topic: Topic, count: int = 600) -> None:
    sender = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        sender.produce(topic.name, b"%d" % number, partition=number % topic.count)
    assert sender.flush(PATIENCE_S) == 0


def share(*readers: "Reader | Verifiable") -> bool:
    """Whether all partitions are with them, each with one, and nobody has two more than another."""
    parts = [reader.has for reader in readers]
    sizes = [len(part) for part in parts]
    return sum(sizes) == len(set().union(*parts)) == PARTITIONS and max(sizes) - min(sizes) <= 1


def group_of(cluster: Any, name: str) -> Any:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return admin.describe_consumer_groups([name])[name].result(PATIENCE_S)


def coordinator_of(cluster: Any, name: str) -> int:
    with Admin(cluster.bootstrap) as admin:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[name])
        return wait_for(lambda: int(admin.ask(request).coordinators[0].node_id) + 1, "a coordinator") - 1


def test_members_come_and_go_and_every_record_is_read(cluster, topic, name):
    with (
        Load(cluster.bootstrap, topic) as load,
        Reader(cluster.bootstrap, name, topic.name) as first,
    ):
        wait_for(lambda: share(first), "all of it")
        with Reader(cluster.bootstrap, name, f"^t-{name}.*") as second:
            wait_for(lambda: share(first, second), "a half each")
            third = Reader(cluster.bootstrap, name, topic.name, **{"group.remote.assignor": "range"})
            wait_for(lambda: share(first, second, third), "a third each")
            wait_for(lambda: group_of(cluster, name).state.name == "STABLE", "that the coordinator has heard so")
            third.close()
            wait_for(lambda: share(first, second), "a half each again")
            load.await_more(100)
        wait_for(lambda: share(first), "all of it again")
        load.stop()
        everything = {b"%d" % number for number in load.acknowledged}
        wait_for(
            lambda: {value for reader in (first, second, third) for _, _, value in reader.read} >= everything,
            "every record",
        )
        assert [*first.failures, *second.failures, *third.failures] == []


def test_a_static_member_that_restarts_takes_nothing_from_the_others(cluster, topic, name):
    with Reader(cluster.bootstrap, name, topic.name) as other:
        static = Reader(cluster.bootstrap, name, topic.name, **{"group.instance.id": "i"})
        wait_for(lambda: share(other, static), "a half each")
        mine, others = static.has, other.has
        static.close()
        with Reader(cluster.bootstrap, name, topic.name, **{"group.instance.id": "i"}) as again:
            wait_for(lambda: again.has == mine, "its part")
            assert other.has == others


def test_a_member_that_dies_is_fenced_and_the_rest_read_on(cluster, topic, name):
    fill(cluster, topic)
    given = ["--entity-type", "groups", "--entity-name", name]
    place = ["configs", "--bootstrap-server", cluster.bootstrap]
    assert run([*place, "--alter", *given, "--add-config", "consumer.session.timeout.ms=6000"]) == 0
    script = (
        "from confluent_kafka import Consumer\n"
        f"c = Consumer({{'bootstrap.servers': '{cluster.bootstrap}', 'group.id': '{name}', 'group.protocol': 'consumer'}})\n"
        f"c.subscribe(['{topic.name}'])\n"
        "while True: c.poll(1)\n"
    )
    with Reader(cluster.bootstrap, name, topic.name) as reader:
        wait_for(lambda: share(reader), "all of it")
        process = subprocess.Popen([sys.executable, "-c", script])
        wait_for(lambda: len(reader.has) == PARTITIONS // 2, "a half")
        process.kill()
        process.wait()
        wait_for(lambda: share(reader), "all of it again")


def test_the_coordinator_dies_and_the_group_goes_on(cluster, topic, name):
    with (
        Load(cluster.bootstrap, topic) as load,
        Reader(cluster.bootstrap, name, topic.name) as first,
        Reader(cluster.bootstrap, name, topic.name) as second,
    ):
        wait_for(lambda: share(first, second), "a half each")
        for _ in range(2):
            dead = coordinator_of(cluster, name)
            cluster.kill(dead)
            wait_for(lambda old=dead: coordinator_of(cluster, name) != old, "another coordinator")
            load.await_more(100)
            cluster.start_broker(dead)
            wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all in sync again")
        with Reader(cluster.bootstrap, name, topic.name) as third:
            wait_for(lambda: share(first, second, third), "a third each")
        load.stop()
        everything = {b"%d" % number for number in load.acknowledged}
        everybody = (first, second, third)
        wait_for(lambda: {value for each in everybody for _, _, value in each.read} >= everything, "every record")
        assert [*first.failures, *second.failures, *third.failures] == []


def test_a_running_group_is_upgraded_and_goes_back(cluster, topic, name):
    """One member after the other: the partitions are always shared, and positions go over."""

    def reader(protocol: str) -> Reader:
        return Reader(cluster.bootstrap, name, topic.name, protocol=protocol)

    with Load(cluster.bootstrap, topic) as load:
        readers = [reader("classic"), reader("classic")]
        everybody = list(readers)
        try:
            wait_for(lambda: share(*readers), "a half each")
            assert group_of(cluster, name).type.name == "CLASSIC"
            for protocol in ("consumer", "consumer", "classic", "classic"):
                readers.pop(0).close()
                readers.append(reader(protocol))
                everybody.append(readers[-1])
                wait_for(lambda: share(*readers), f"a half each, one more {protocol}")
                load.await_more(50)
            assert group_of(cluster, name).type.name == "CLASSIC"
            load.stop()
            everything = {b"%d" % number for number in load.acknowledged}
            wait_for(lambda: {value for each in everybody for _, _, value in each.read} >= everything, "every record")
        finally:
            for each in readers:
                each.close()


# Java


def test_java_consumers_read_with_the_new_protocol(cluster, kafka_tool, topic, name):
    fill(cluster, topic)
    bootstrap = ["--bootstrap-server", cluster.bootstrap]
    said = kafka_tool(
        CONSOLE, *bootstrap, "--topic", topic.name, "--group", name, "--from-beginning", "--max-messages", "600",
        "--command-property", "group.protocol=consumer", "--timeout-ms", "40000",
    )  # fmt: skip
    assert sorted(map(int, said.split())) == list(range(600))
    assert group_of(cluster, name).type.name == "CONSUMER"
    said = kafka_tool(
        "ConsumerPerformance", *bootstrap, "--topic", topic.name, "--group", f"{name}-performance", "--num-records", "600",
        "--command-property", "group.protocol=consumer", "--command-property", "auto.offset.reset=earliest",
        "--timeout", "40000",
    )  # fmt: skip
    assert " 600," in said


class Verifiable:
    """Kafka's VerifiableConsumer, whose commits are synchronous: what it reads and has, as it reports."""

    def __init__(self, libs: str, bootstrap: str, group: str, topic: str) -> None:
        named = ["--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic, "--group-protocol", "consumer"]
        java = ["java", "-Xmx256m", *jvm.KAFKA, "-cp", libs, "org.apache.kafka.tools.VerifiableConsumer"]
        self.process = subprocess.Popen([*java, *named], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.read: set[tuple[int, int]] = set()
        self.has: set[int] = set()
        self.refused: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _listen(self) -> None:
        for line in lines_of(self.process.stdout):
            told = json.loads(line) if line.startswith("{") else {"name": "words"}
            parts = told.get("partitions", [])
            if told["name"] == "records_consumed":
                spans = [(part["partition"], part["minOffset"], part["maxOffset"]) for part in parts]
                self.read |= {(number, offset) for number, low, high in spans for offset in range(low, high + 1)}
            elif told["name"] == "partitions_assigned":
                self.has |= {part["partition"] for part in parts}
            elif told["name"] == "partitions_revoked":
                self.has -= {part["partition"] for part in parts}
            elif told["name"] == "offsets_committed" and not told["success"]:
                self.refused.append(told["error"])


def test_java_consumers_share_while_the_coordinator_dies(cluster, kafka_libs, topic, name):
    with (
        Load(cluster.bootstrap, topic, pace_s=0.002) as load,
        Verifiable(kafka_libs, cluster.bootstrap, name, topic.name) as first,
    ):
        wait_for(lambda: share(first), "all of it")
        with Verifiable(kafka_libs, cluster.bootstrap, name, topic.name) as second:
            wait_for(lambda: share(first, second), "a half each")
            dead = coordinator_of(cluster, name)
            cluster.kill(dead)
            wait_for(lambda: coordinator_of(cluster, name) != dead, "another coordinator")
            load.await_more(300)
            cluster.start_broker(dead)
            assert share(first, second)
        wait_for(lambda: share(first), "all of it again")
        load.stop()
        everything = set(load.acknowledged.values())
        wait_for(lambda: first.read | second.read >= everything, "every record")


def test_kafkas_command_lists_and_describes(cluster, kafka_tool, topic, name):
    def tool(*arguments: str) -> list[list[str]]:
        said = kafka_tool(GROUPS, "--bootstrap-server", cluster.bootstrap, *arguments)
        return [line.split() for line in said.splitlines() if line.strip()]

    fill(cluster, topic)
    with Reader(cluster.bootstrap, name, topic.name, **{"client.id": "reader"}) as reader:
        wait_for(lambda: len(reader.read) == 600, "every record")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        wait_for(lambda: sum(offsets(admin, name).values()) == 600, "positions of all that was read")
        assert [name, "Consumer", "Stable"] in tool("--list", "--type", "--state")
        heading, *rows = tool("--describe", "--group", name)
        assert heading[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
        assert sorted(row[:6] for row in rows) == [[name, topic.name, f"{n}", "100", "100", "0"] for n in range(6)]
        heading, row = tool("--describe", "--group", name, "--members", "--verbose")
        named = dict(zip(heading, row, strict=False))
        assert (named["CURRENT-EPOCH"], named["TARGET-EPOCH"], named["#PARTITIONS"]) == ("2", "2", "6")
        heading, row = tool("--describe", "--group", name, "--state", "--verbose")
        assert "Stable" in row
        assert "uniform" in row
    tool("--delete", "--group", name)
    assert name not in [row[0] for row in tool("--list")]


def offsets(admin: AdminClient, group: str) -> dict[int, int]:
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_S)
    return {place.partition: place.offset for place in found.topic_partitions}


VIEWS = (["--members", "--verbose"], ["--members"], ["--state", "--verbose"], ["--state"], ["--offsets", "--verbose"])


def test_our_command_shows_what_kafkas_shows(cluster, kafka_tool, topic, name):
    ours = "from tidelog.cli.main import main; main()"
    with (
        Reader(cluster.bootstrap, name, topic.name) as new,
        Reader(cluster.bootstrap, name, topic.name, protocol="classic") as old,
    ):
        wait_for(lambda: share(new, old), "a half each")

        def shown(view: list[str]) -> tuple[list[list[str]], list[list[str]]]:
            asked = ["--bootstrap-server", cluster.bootstrap, "--describe", "--group", name, *view]
            command = [sys.executable, "-c", ours, "groups", *asked]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
            texts = (done.stdout, kafka_tool(GROUPS, *asked))
            mine, theirs = (sorted(line.split() for line in text.splitlines()) for text in texts)
            return mine, theirs

        for view in VIEWS:
            mine, theirs = shown(view)
            if mine != theirs:  # a member may have told of its share between the two
                mine, theirs = shown(view)
            assert mine == theirs, view


def length(cluster: Supervisor, topic: str) -> int:
    """How many records there are."""
    with Plain(cluster.bootstrap) as consumer:
        places = consumer.partitions_of(topic)
        return sum(consumer.end_offsets(places).values()) - sum(consumer.beginning_offsets(places).values())


def test_kafkas_formatter_and_auditor_read_the_records(cluster, kafka_tool, topic, name):
    """The formatter shows classic groups only, but reads what it passes over; the auditor shows everything."""
    with Reader(cluster.bootstrap, name, topic.name) as reader:
        wait_for(lambda: share(reader), "all of it")
        old = Reader(cluster.bootstrap, name, topic.name, protocol="classic")
        wait_for(lambda: share(reader, old), "a half each")
        old.close()
    kafka_tool(
        CONSOLE, "--bootstrap-server", cluster.bootstrap, "--topic", "__consumer_offsets", "--from-beginning",
        "--formatter", "org.apache.kafka.tools.consumer.GroupMetadataMessageFormatter", "--timeout-ms", "60000",
        "--max-messages", str(length(cluster, "__consumer_offsets")),
    )  # fmt: skip
    written = [path for path in Path(cluster.folder).glob("broker-*/__consumer_offsets-*/*.log") if path.stat().st_size]
    files = ",".join(map(str, written))
    said = kafka_tool("DumpLogSegments", "--offsets-decoder", "--files", files)
    ours = [line for line in said.splitlines() if f'"groupId":"{name}"' in line]
    types = set(re.findall(r'"type":"?(\w+)', "".join(ours)))
    assert types == {"3", "5", "6", "7", "8"}, "the group, its members, its targets, and what the members have"
    assert any('"classicMemberMetadata"' in line for line in ours)
