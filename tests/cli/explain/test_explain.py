"""`tidelog explain` on a real cluster: its findings when brokers die, a deletion waits, and a group makes no progress."""

import json

import pytest

from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3, auto_create_topics_enable=False) as started:
        started.create_topic("t", 2, min_insync_replicas=2)
        yield started


@pytest.fixture
def explain(cluster, capsys):
    """The findings of a command, by kind; with `until` the first that have this kind."""

    def call(*words, until=None):
        def findings():
            capsys.readouterr()
            code = run(["explain", words[0], "--bootstrap-server", cluster.bootstrap, "--watch-ms", "20", "--patience-ms", "0", *words[1:], "--json"])  # fmt: skip
            printed = capsys.readouterr()
            assert code in (0, 2) or until is not None, printed.err
            return (
                {finding["kind"]: finding for finding in json.loads(printed.out)["findings"]} if code in (0, 2) else {}
            )

        if until is None:
            return findings()
        return wait_for(lambda: found if until in (found := findings()) else None, until)

    return call


def test_a_cluster_that_is_well(explain):
    assert "partition.under-replicated" not in explain("cluster")
    assert "broker.down" not in explain("broker", "0")


def test_what_is_not_there_is_said(tidelog, cluster):
    place = ("--bootstrap-server", cluster.bootstrap, "--watch-ms", "0", "--patience-ms", "0")
    refused = tidelog("explain", "partition", *place, "t-9")
    assert (refused.code, refused.err.strip()) == (1, "Topic t has no partition 9.")
    assert "'t' is not a partition" in tidelog("explain", "partition", *place, "t").err
    assert "Broker 7 does not exist" in tidelog("explain", "broker", *place, "7").err
    assert "not found" in tidelog("explain", "group", *place, "nobody").err
    assert "The topic does not exist." in tidelog("explain", "topic", *place, "nothing").out


def test_a_group_that_nobody_serves(tidelog, cluster, explain):
    place = ("--bootstrap-server", cluster.bootstrap)
    tidelog("produce", *place, "--topic", "t", given=b"1\n2\n3\n")
    read = tidelog("consume", *place, "--topic", "t", "--group", "g", "--from-beginning", "--max-messages", "3")
    assert read.code == 0
    assert explain("group", "g", until="group.empty")["group.empty"]["severity"] == "note"
    tidelog("produce", *place, "--topic", "t", given=b"4\n")
    assert "1 records are waiting" in explain("group", "g")["group.empty"]["says"]


def test_a_dead_broker_then_a_deletion_that_waits_for_it(tidelog, cluster, explain):
    place = ("--bootstrap-server", cluster.bootstrap)
    cluster.kill(2)

    def lacks_the_dead():
        found = explain("topic", "t", until="partition.under-replicated")["partition.under-replicated"]
        return found if any(fact.startswith("Broker 2 ") and " down" in fact for fact in found["because"]) else None

    lacking = wait_for(lacks_the_dead, "broker 2 to be down")
    assert lacking["helps"] == ["Start broker 2."]
    told = tidelog("explain", "timeline", *place, "t-0")
    assert "broker 2 is gone" in told.out
    assert "ISR" in told.out
    assert tidelog("explain", "timeline", *place, "nothing-0").code == 1

    assert tidelog("topics", *place, "--delete", "--topic", "t").code == 0
    waits = explain("topic", "t", until="topic.deletion-waits")["topic.deletion-waits"]
    assert "Broker 2 held replicas and is down or cut off." in waits["because"]
    assert "topic.deletion-waits" in explain("cluster")
    cluster.start(2)
    # The last replica is confirmed, the nodes are being removed.
    gone = lambda: explain("topic", "t", until="topic.unknown")["topic.unknown"]["because"]  # noqa: E731
    assert "It was deleted" in wait_for(gone, "the topic to be gone")[0]
