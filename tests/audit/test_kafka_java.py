"""Three real Kafka brokers: their replicas are fetched and their folders read, and there is nothing to find."""

import json

import pytest

from bench import sides
from bench.wire import fresh_topic
from tests import jvm
from tests.audit.logs import flip_record
from tidelog.audit.core import finding
from tidelog.cli.main import run
from tidelog.shell.transport import Producer

RECORDS = 1_000


@pytest.fixture
def kafka(tmp_path, kafka_libs, kafka_tool):
    class Quick(sides.Kafka):
        """Not to be measured: it starts sooner."""

        def format(self, *arguments):
            kafka_tool("kafka.tools.StorageTool", *arguments)

        def command(self, number):
            return ["java", "-Xmx512m", *jvm.KAFKA, "-cp", kafka_libs, "kafka.Kafka", self.properties(number)]

    with Quick(tmp_path / "kafka", 3) as running:
        yield running


def audit(capsys, *arguments):
    run(["audit", "--local", "--json", *map(str, arguments)])
    return json.loads(capsys.readouterr().out)


def test_replicas_of_kafka(capsys, kafka):
    fresh_topic(kafka.ports[0], "t", 2, 3)
    fresh_topic(kafka.ports[0], "c", 1, 3, {"cleanup.policy": "compact"})
    with Producer(kafka.bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send("t", b"v%d" % number, partition=number % 2)
            producer.send("c", b"v%d" % number, key=b"k%d" % (number % 50))
        producer.flush()
    for way in ("fetch", "folders"):
        found = audit(capsys, "--bootstrap", kafka.bootstrap, "--read", way)
        assert found["findings"] == []
        ends = {each["topic"]: {replica["end"] for replica in each["replicas"]} for each in found["partitions"]}
        assert ends == {"c": {RECORDS}, "t": {RECORDS // 2}}
    kafka.stop()
    folders = [word for number in range(3) for word in ("--folder", kafka.data(number))]
    assert audit(capsys, *folders, "--compacted", "c")["findings"] == []
    flip_record(next((kafka.data(1) / "t-1").glob("*.log")))
    (broken,) = audit(capsys, *folders)["findings"]
    assert (broken["kind"], broken["topic"], broken["partition"], broken["brokers"]) == (finding.CHECKSUM, "t", 1, [1])
