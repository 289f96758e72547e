"""`tidelog explain` on a metadata quorum: each fault is caused on brokers that run, and nothing is said of a healthy one.

In simulated clusters tests/simulation/test_seeds.py does the same with drawn faults.
"""

import json
import threading
from contextlib import suppress

import pytest

from tests.waiting import wait_for
from tidelog.cli.main import run
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster
from tidelog.testing.broker import BrokerCrashed

QUICK = {"broker.session.timeout.ms": "2000", "controller.quorum.fetch.timeout.ms": "1000"}


def quorum():
    return Cluster(brokers=3, metadata="quorum", min_insync_replicas=1, options=QUICK)


@pytest.fixture
def cluster():
    with quorum() as started:
        started.create_topic("t", 3)
        yield started


@pytest.fixture
def look(capsys):
    """(exit status, findings by kind) about a cluster."""

    def call(cluster, *, patience_ms=0):
        capsys.readouterr()
        options = ["--bootstrap-server", cluster.bootstrap, "--watch-ms", "20", "--patience-ms", str(patience_ms)]
        code = run(["explain", "cluster", *options, "--json"])
        return code, {each["kind"]: each for each in json.loads(capsys.readouterr().out)["findings"]}

    return call


@pytest.fixture
def explained(look):
    """The findings about a cluster, once there is one of this kind."""

    def call(cluster, kind):
        found = wait_for(lambda: kind in (seen := look(cluster))[1] and seen, f"explain to find {kind}", within_s=40)
        assert found[0] == 2
        return found[1]

    return call


def leader_of(cluster):
    """The voter that is the controller, as all that run see it."""

    def agreed():
        running = [broker for broker in cluster.brokers if broker.is_running]
        found = {broker.call(lambda hosted: hosted.node.broker.controller.leader_id) for broker in running}
        return len(found) == 1 and found != {-1} and found

    return min(wait_for(agreed, "a controller"))


def test_nothing_is_said_of_a_busy_quorum(cluster, look):
    over = threading.Event()

    def write():
        with Producer(cluster.bootstrap) as producer:
            while not over.is_set():
                producer.send("t", b"x" * 100)
                producer.flush(10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for number in range(3):
            cluster.create_topic(f"more-{number}", 3)
            code, found = look(cluster, patience_ms=3_000)
            assert {kind for kind, each in found.items() if each["severity"] != "note"} == set()
            assert code in (0, 3), found  # 3: a machine that is too busy to answer
    finally:
        over.set()
        thread.join()


def test_a_voter_that_is_cut_off_is_behind_and_has_no_session(cluster, explained):
    cut = next(broker for broker in range(3) if broker != leader_of(cluster))
    cluster.partition({cut}, {0, 1, 2} - {cut})
    found = explained(cluster, "cluster.voter-behind")
    assert found["cluster.voter-behind"]["says"].startswith(f"Voter {cut} of the metadata quorum is behind")
    finding = explained(cluster, "broker.store-silent")["broker.store-silent"]
    assert finding["helps"] == ["Check its network to the controllers."]


def test_voters_that_do_not_reach_each_other_have_no_leader(cluster, explained):
    cluster.partition({0}, {1}, {2})
    found = explained(cluster, "cluster.no-controller")
    assert "A majority of the voters must reach each other" in found["cluster.no-controller"]["helps"][0]
    assert "Other brokers reach it" not in str(found)


def test_a_voter_whose_disk_is_full_ends_and_without_two_there_is_no_majority(explained):
    with suppress(BrokerCrashed), quorum() as cluster:
        cluster.create_topic("t")
        full = next(broker for broker in range(3) if broker != leader_of(cluster))
        cluster.full_disk(full)
        cluster.delete_topics(["t"])  # the record is one that it cannot write
        found = explained(cluster, "broker.down")
        assert found["broker.down"]["about"] == f"broker {full}"
        assert "cluster.quorum-without-majority" not in found
        cluster.kill(leader_of(cluster))
        finding = explained(cluster, "cluster.quorum-without-majority")["cluster.quorum-without-majority"]
        assert "1 of its 3 voters answer" in finding["says"]
        assert finding["helps"][0].startswith("Start 1 of these: brokers")
