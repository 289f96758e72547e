"""What a test author does to brokers, and what a wrong call says."""

import asyncio

import pytest

from tests.waiting import wait_for
from tidelog.errors import ApiError
from tidelog.testing import Cluster, ClusterClosed


@pytest.fixture(scope="module")
def three():
    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.mark.parametrize("number", [0, -1, 1.5, "3", True, None])
def test_a_wrong_number_of_brokers_is_refused(number):
    with pytest.raises(ValueError, match=r"brokers: .* is not a number of brokers; expected 1 or more"):
        Cluster(brokers=number)


@pytest.mark.parametrize("method", ["kill", "stop", "start", "restart", "pause", "resume"])
@pytest.mark.parametrize("number", [9, -1, "0", True])
def test_a_broker_that_does_not_exist_is_named_with_the_range(three, method, number):
    with pytest.raises(ValueError, match=rf"broker {number!r} does not exist; expected 0 to 2"):
        getattr(three, method)(number)
    assert all(broker.is_running for broker in three.brokers)


def test_a_closed_cluster_says_so_at_once():
    cluster = Cluster(brokers=1)
    with cluster:
        cluster.create_topic("t")
        with pytest.raises(ValueError, match="broker 1 does not exist; expected 0"):
            cluster.kill(1)
    assert "closed" in repr(cluster)
    for call in (
        lambda: cluster.bootstrap,
        cluster.start,
        lambda: cluster.kill(0),
        lambda: cluster.restart(0),
        lambda: cluster.create_topic("u"),
        lambda: cluster.leader("t"),
        lambda: cluster.delete_topics(["t"]),
        cluster.heal,
        cluster.__enter__,
    ):
        with pytest.raises(ClusterClosed, match="the cluster is closed"):
            call()
    cluster.close()  # once more does nothing


def test_coroutines_await_a_cluster():
    async def scenario():
        async with Cluster(brokers=1) as cluster:
            _, writer = await asyncio.open_connection("127.0.0.1", cluster.brokers[0].port)
            writer.close()
            await writer.wait_closed()
            return cluster

    assert not asyncio.run(scenario()).brokers[0].is_running


def test_a_killed_leader_is_replaced_and_a_restarted_broker_keeps_its_port(three):
    three.create_topic("led")
    leader = three.leader("led")
    port = three.brokers[leader].port
    three.kill(leader)
    wait_for(lambda: three.leader("led") not in (leader, -1), "another leader")
    three.start(leader)
    wait_for(lambda: three.in_sync("led") == {0, 1, 2}, "the killed broker to be in sync again")
    three.restart(leader)
    assert three.brokers[leader].port == port


def test_a_paused_broker_can_be_killed_stopped_and_left_behind():
    with Cluster(brokers=2) as cluster:
        cluster.pause(0)
        cluster.kill(0)
        assert not cluster.brokers[0].is_paused
        cluster.start(0)
        cluster.pause(0)
        cluster.stop(0)
        cluster.start()
        cluster.pause(1)
        cluster.heal()
        cluster.wait_ready()
        cluster.pause(1)


def test_topics_are_deleted(three):
    three.create_topic("gone")
    three.delete_topics(["gone"])
    with pytest.raises(ValueError, match="topic 'gone' does not exist"):
        three.leader("gone")
    with pytest.raises(ApiError, match="gone: This server does not host this topic-partition"):
        three.delete_topics(["gone"])
