"""`tidelog explain` on a real cluster: what is told when brokers die, a deletion waits, and a group stands."""

import json
import time

import pytest

from tests.compatibility.differential import brokers
from tidelog.cli.main import run
from tidelog.testing import Cluster

PATIENCE_S = 90


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3, auto_create_topics_enable=False) as started:
        started.create_topic("t", 2, min_insync_replicas=2)
        yield started


@pytest.fixture
def explain(cluster, capsys):
    """The findings of a command, by kind; with `until` the first that have this kind."""

    def call(*words, until=None):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            capsys.readouterr()
            code = run(["explain", words[0], "--bootstrap-server", cluster.bootstrap, "--watch-ms", "20", *words[1:], "--json"])  # fmt: skip
            printed = capsys.readouterr()
            if code == 0:
                found = {finding["kind"]: finding for finding in json.loads(printed.out)["findings"]}
                if until is None or until in found:
                    return found
            assert until is not None, printed.err
            assert time.monotonic() < deadline, printed

    return call


def test_a_cluster_that_is_well(explain):
    assert "partition.under-replicated" not in explain("cluster")
    assert "broker.down" not in explain("broker", "0")


def test_what_is_not_there_is_said(tidelog, cluster):
    place = ("--bootstrap-server", cluster.bootstrap, "--watch-ms", "0")
    refused = tidelog("explain", "partition", *place, "t-9")
    assert (refused.code, refused.err.strip()) == (1, "Topic t has no partition 9.")
    assert "'t' is no partition" in tidelog("explain", "partition", *place, "t").err
    assert "No broker 7" in tidelog("explain", "broker", *place, "7").err
    assert "not found" in tidelog("explain", "group", *place, "nobody").err
    assert "There is no such topic." in tidelog("explain", "topic", *place, "nothing").out


def test_a_group_that_nobody_serves(tidelog, cluster, explain):
    place = ("--bootstrap-server", cluster.bootstrap)
    tidelog("produce", *place, "--topic", "t", given=b"1\n2\n3\n")
    read = tidelog("consume", *place, "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3")
    assert read.code == 0
    assert explain("group", "g", until="group.empty")["group.empty"]["severity"] == "note"
    tidelog("produce", *place, "--topic", "t", given=b"4\n")
    assert "1 records wait" in explain("group", "g")["group.empty"]["says"]


def test_a_dead_broker_then_a_deletion_that_waits_for_it(tidelog, cluster, explain):
    place = ("--bootstrap-server", cluster.bootstrap)
    cluster.kill(2)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lacking = explain("topic", "t", until="partition.under-replicated")["partition.under-replicated"]
        if any(fact.startswith("Broker 2 ") and " down" in fact for fact in lacking["because"]):
            break
        assert time.monotonic() < deadline, lacking
    assert lacking["helps"] == ["Start broker 2."]
    told = tidelog("explain", "timeline", *place, "t-0")
    assert "broker 2 is gone" in told.out
    assert "ISR" in told.out
    assert tidelog("explain", "timeline", *place, "nothing-0").code == 1

    assert tidelog("topics", *place, "--delete", "--topic", "t").code == 0
    waits = explain("topic", "t", until="topic.deletion-waits")["topic.deletion-waits"]
    assert "Broker 2 held replicas and is down." in waits["because"]
    assert "topic.deletion-waits" in explain("cluster")
    cluster.start(2)
    deadline = time.monotonic() + PATIENCE_S
    while not (gone := explain("topic", "t", until="topic.unknown")["topic.unknown"])["because"]:
        assert time.monotonic() < deadline  # the last replica is confirmed, the nodes are being removed
    assert "It was deleted" in gone["because"][0]


def test_apache_kafka_is_explained_with_what_its_own_apis_tell(tidelog, kafka_libs, tmp_path):
    with brokers.kafka(tmp_path / "kafka", kafka_libs) as port:
        place = ("--bootstrap-server", f"127.0.0.1:{port}")
        options = ("--partitions", "2", "--replication-factor", "1", "--config", "min.insync.replicas=2")
        assert tidelog("topics", *place, "--create", "--topic", "t", *options).code == 0
        deadline = time.monotonic() + PATIENCE_S
        while (refused := tidelog("explain", "topic", *place, "t")).out.count("NOT_ENOUGH_REPLICAS") != 2:
            assert time.monotonic() < deadline, refused  # Kafka's broker learns of the topic after it is created
        assert refused.code == 0, refused.err
        assert "There is no such topic." in tidelog("explain", "topic", *place, "nothing").out
        assert tidelog("explain", "broker", *place, "1").code in (0, 1)
        assert "No broker remembers anything of t-0." in tidelog("explain", "timeline", *place, "t-0").err
