"""The moves of `test_moves`, on ZooKeeper: begun by the tools and by a node in the tree."""

import json

import pytest
from kazoo.client import KazooClient

from tests.compatibility.test_moves import (
    BROKERS,
    await_replicas,
    file,
    fill,
    held,
    test_a_topic_deleted_during_a_move_goes_when_that_ends,
    test_a_topic_deleted_while_a_broker_is_down_goes_with_its_return,
    test_kafkas_reassignment_tool,
    test_partitions_move_under_load_while_brokers_and_controllers_die,
    tidelog,
    wishes,
)
from tests.processes import Processes
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(900)
CHROOT = "/moves"

__all__ = [
    "file",
    "test_a_topic_deleted_during_a_move_goes_when_that_ends",
    "test_a_topic_deleted_while_a_broker_is_down_goes_with_its_return",
    "test_kafkas_reassignment_tool",
    "test_partitions_move_under_load_while_brokers_and_controllers_die",
    "tidelog",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("moves")


@pytest.fixture(scope="module")
def cluster(folder, zookeeper):
    overrides = {
        "zookeeper.connect": zookeeper.hosts + CHROOT,
        "zookeeper.session.timeout.ms": "3000",
        "group.initial.rebalance.delay.ms": "0",
        "replica.lag.time.max.ms": "5000",
        "auto.leader.rebalance.enable": "false",
    }
    with Processes(folder, brokers=BROKERS, port=0, overrides=overrides) as running:
        yield running


def test_a_node_of_the_tree_starts_a_move_that_a_new_controller_ends(cluster, zookeeper, tidelog, folder):
    """What an operator of ZooKeeper's times did; the node of the controller is deleted meanwhile (seed 004)."""
    tidelog("topics", "--create", "--topic", "noted", "--replica-assignment", "0:1")
    fill(cluster, "noted", 300)
    operator = KazooClient(zookeeper.hosts + CHROOT, timeout=60)
    operator.start()
    try:
        operator.create("/admin/reassign_partitions", json.dumps(wishes({("noted", 0): [2, 3]})).encode())
        operator.delete("/controller")
        wait_for(lambda: not operator.exists("/admin/reassign_partitions"), "the node goes")
        await_replicas(tidelog, {("noted", 0): [2, 3]})
        assert "adding_replicas" in json.loads(operator.get("/brokers/topics/noted")[0])
    finally:
        operator.stop()
        operator.close()
    wait_for(lambda: held(folder, "noted") == [2, 3], "the old replicas go")
