"""Clusters of the kit whose brokers are a metadata quorum."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from threading import Event

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import wait_for
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3, metadata="quorum", min_insync_replicas=2) as running:
        yield running


def send(cluster, count):
    with Producer(cluster.bootstrap, acks="all") as producer:
        for number in range(count):
            producer.send("t", b"%d" % number, partition=number % 3)
        assert all(delivery.is_acknowledged for delivery in producer.flush(timeout=60))


def controllers(cluster):
    """Who leads the quorum, by broker."""
    running = [broker for broker in cluster.brokers if broker.is_running and not broker.is_cut_off]
    return {broker.call(lambda hosted: hosted.node.broker.controller.leader_id) for broker in running}


def test_records_are_acknowledged_while_the_controller_is_killed(cluster):
    cluster.create_topic("t", partitions=3)
    send(cluster, 30)
    (controller,) = controllers(cluster)
    cluster.kill(controller)
    send(cluster, 30)
    cluster.start(controller)
    send(cluster, 30)


LONGEST_GAP_S = 6.0
"""Below the 9 s for which the session of a broker lasts that nobody misses. Usual is 0.5 s, the longest time for which a
follower waits at a leader before it fetches a partition that leader has got meanwhile."""


def leaders_of(cluster, topic):
    return {cluster.leader(topic, partition) for partition in range(6)}


def test_a_rolling_restart_leaves_no_partition_without_a_leader(cluster):
    """Each broker hands its leaderships over before it stops, so a producer never waits for the end of a session."""
    cluster.create_topic("rolling", partitions=6)
    is_over, acknowledged = Event(), []

    def write():
        with Producer(cluster.bootstrap, acks="all", linger_ms=0) as producer:
            for number in count():
                if is_over.is_set():
                    return
                producer.send("rolling", b"x", partition=number % 6)
                assert all(delivery.is_acknowledged for delivery in producer.flush(timeout=60))
                acknowledged.append(time.monotonic())

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        try:
            for number in range(3):
                wait_for(lambda: in_sync(cluster, "rolling") == [3] * 6, "all replicas in sync")
                cluster.stop(number)
                # The others learn of it with the commit: from the next controller, if this one stops.
                others = {0, 1, 2} - {number}
                wait_for(lambda others=others: leaders_of(cluster, "rolling") <= others, "the others to lead")
                cluster.start(number)
            before = len(acknowledged)
            wait_for(lambda: len(acknowledged) >= before + 6, "records after the last restart")
        finally:
            is_over.set()
        written.result()
    gap = max(later - earlier for earlier, later in pairwise(acknowledged))
    assert gap < LONGEST_GAP_S, gap


def in_sync(cluster, topic):
    return [len(cluster.in_sync(topic, partition)) for partition in range(6)]


def test_a_controller_without_network_is_replaced_and_comes_back(cluster):
    (before,) = controllers(cluster)
    others = {0, 1, 2} - {before}
    cluster.partition({before}, others)
    wait_for(lambda: len(found := controllers(cluster)) == 1 and found <= others, "another controller")
    cluster.heal()
    cluster.wait_ready()
    send(cluster, 30)


def test_another_store_is_refused():
    with pytest.raises(ValueError, match="expected 'sqlite' or 'quorum'"):
        Cluster(metadata="disk")


def test_a_secured_quorum_needs_a_password():
    with Cluster(brokers=1, metadata="quorum", secure=True) as secured:
        admin = AdminClient(secured.client_options)
        admin.create_topics([NewTopic("s", 1, 1)])["s"].result(30)
        with pytest.raises(KafkaException):
            AdminClient({**secured.client_options, "sasl.password": "wrong"}).list_topics(timeout=2)
