"""Brokers of the version before the metadata quorum are replaced one by one, under load, and back; then the new level of
the tree is finalized, and such brokers are refused."""

import re
import threading
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from tests.compatibility.earlier_version import BEFORE_QUORUM, Rolling, source
from tests.compatibility.support import Load, Topic, assert_exact, controller_of, stored
from tests.waiting import wait_for
from tidelog.cli.main import run

pytestmark = pytest.mark.timeout(600)

PARTITIONS = 3
TREE, ELR = "tidelog.metadata", "eligible.leader.replicas.version"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    return source(BEFORE_QUORUM, tmp_path_factory.mktemp("earlier"))


@pytest.fixture
def cluster(tmp_path, zookeeper, earlier):
    options = {
        "zookeeper.connect": f"{zookeeper.hosts}/rolling",
        "zookeeper.session.timeout.ms": "3000",
        "group.initial.rebalance.delay.ms": "0",
        "min.insync.replicas": "2",
    }
    started = Rolling(tmp_path, brokers=3, port=0, overrides=options, report=lambda _: None)
    for child in started.children:
        started.run_earlier(child.number, earlier)
        child.log = tmp_path / f"broker-{child.number}.log"
    with started:
        yield started


@contextmanager
def group(cluster, topic):
    """A group of one consumer that commits; what it read, by partition."""
    found, ended = {}, threading.Event()

    def read():
        consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic.name])
        while not ended.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found[int(message.value())] = (message.partition(), message.offset())
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def replace(cluster, topic, load, number):
    """Stop the broker cleanly and start it again, as what it is to be now."""
    cluster.stop_broker(number)
    cluster.start_broker(number)
    cluster.wait_ready()
    wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), f"broker {number} in sync again")
    load.await_more(30)


def features(cluster, capsys, *arguments):
    capsys.readouterr()
    code = run(["features", "--bootstrap-server", cluster.bootstrap, *arguments])
    return code, capsys.readouterr().out


def test_brokers_are_replaced_one_by_one_and_back_until_the_level_is_finalized(cluster, earlier, capsys):
    topic = Topic(cluster.bootstrap, "replaced", PARTITIONS, min_insync_replicas="2")
    with Load(cluster.bootstrap, topic) as load, group(cluster, topic) as read:
        for versions in (cluster.run_current, lambda number: cluster.run_earlier(number, earlier), cluster.run_current):
            for number in range(3):
                versions(number)
                replace(cluster, topic, load, number)
        finalize(cluster, capsys)
        cluster.run_earlier(2, earlier)
        cluster.stop_broker(2)
        cluster.start_broker(2)
        controller = controller_of(cluster.bootstrap)
        log = cluster.children[controller].log
        wait_for(lambda: "broker.refused" in log.read_text(), f"a refusal in {log}")
        load.await_more(100)
        assert all(2 not in isr for isr in topic.isrs().values())
        capsys.readouterr()
        assert run(["explain", "broker", "2", "--bootstrap-server", cluster.bootstrap, "--watch-ms", "0"]) == 2
        assert f"The cluster has {TREE} 1, and the broker's version supports none" in capsys.readouterr().out
        cluster.run_current(2)
        replace(cluster, topic, load, 2)
        load.stop()
        assert_exact(load, stored(cluster.bootstrap, topic))
        wait_for(lambda: read == load.acknowledged, "all records read by the group")


def finalize(cluster, capsys):
    """Once no broker of the earlier version is left, new features can be turned on."""
    code, told = features(cluster, capsys, "describe")
    assert re.search(rf"{TREE} +SupportedMinVersion: 0 +SupportedMaxVersion: 1 +FinalizedVersionLevel: 0", told)
    code, told = features(cluster, capsys, "upgrade", "--feature", f"{ELR}=1")
    assert (code, f"depends on {TREE} level 1" in told) == (1, True)
    assert features(cluster, capsys, "upgrade", "--feature", f"{TREE}=1", "--feature", f"{ELR}=1") == (
        0,
        f"{ELR} was upgraded to 1.\n{TREE} was upgraded to 1.\n",
    )
    code, told = features(cluster, capsys, "downgrade", "--unsafe", "--feature", f"{TREE}=0")
    assert (code, "Refusing to perform the requested downgrade" in told) == (1, True)
