"""Brokers on several hosts, each a network namespace, form a cluster over ZooKeeper on a fourth; cables are cut.

Networks need root: whoever is not runs each test again in a namespace in which he is.
"""

import json
import os
import subprocess
import sys
from functools import wraps
from itertools import permutations

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.compatibility.support import Load, Topic, assert_exact, stored
from tests.ensemble import Server
from tests.processes import Processes
from tests.waiting import wait_for
from tidelog.check.chaos.machine import Network
from tidelog.shell.child import Child
from tidelog.shell.supervisor import cluster_options

ZOOKEEPER = 3
"""The number of ZooKeeper's host; the brokers' are below it."""
PORT, ZOOKEEPER_PORT = 9092, 2181

OWN_NETWORK = ("unshare", "--user", "--map-root-user", "--mount", "--net", "sh", "-c")
PREPARED = 'mount -t tmpfs run /run && ip link set lo up && exec "$@"'


def as_root(test):
    @wraps(test)
    def run(hosts):
        if os.geteuid() == 0:
            test(hosts)
            return
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        command = [*OWN_NETWORK, PREPARED, "sh", sys.executable, "-m", "pytest", "-q", node]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.fail(f"as root in a network of its own:\n{done.stdout}{done.stderr}")

    return run


class Hosts:
    def __init__(self, network, folder):
        self.network = network
        self.folder = folder
        self.server = Server(
            folder / "zookeeper", ZOOKEEPER_PORT, network.address(ZOOKEEPER), prefix=network.prefix(ZOOKEEPER)
        )
        options = {
            "zookeeper.connect": f"{self.server.address}/kafka",
            "zookeeper.session.timeout.ms": "2000",
            "replica.lag.time.max.ms": "2500",
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
        }
        options |= cluster_options(folder, ZOOKEEPER, options)
        self.brokers = Processes(folder, brokers=ZOOKEEPER, port=0, report=lambda line: None)
        self.brokers.children = [self._child(number, options) for number in range(ZOOKEEPER)]

    def _child(self, number, options):
        home, log = self.folder / f"broker-{number}", self.folder / f"log-{number}"
        prefix = self.network.prefix(number)
        return Child(number, home, self.network.address(number), PORT, options, prefix=prefix, log=log)

    def cut(self, one, other):
        self.network.cut(one, other)
        self.network.cut(other, one)

    def restore(self, one, other):
        self.network.restore(one, other)
        self.network.restore(other, one)

    def said(self, broker, what):
        return what in (self.folder / f"log-{broker}").read_text("utf-8")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if os.geteuid() != 0:
        yield None
        return
    with Network(ZOOKEEPER + 1) as network:
        hosts = Hosts(network, tmp_path_factory.mktemp("hosts"))
        try:
            hosts.server.start()
            hosts.server.wait()
            with hosts.brokers:
                hosts.tree = KazooClient(f"{hosts.server.address}/kafka", timeout=60)
                hosts.tree.start()
                yield hosts
                hosts.tree.stop()
                hosts.tree.close()
        finally:
            hosts.server.stop()


@pytest.fixture(autouse=True)
def mended(hosts):
    """What a test that failed has cut is whole for the next one."""
    yield
    if hosts is not None:
        for one, other in permutations(range(ZOOKEEPER + 1), 2):
            hosts.network.restore(one, other)
        for host in range(ZOOKEEPER + 1):
            hosts.network.plug(host)


PROMPT = {"request.timeout.ms": 2000, "socket.timeout.ms": 3000, "socket.connection.setup.timeout.ms": 2000}
"""A client that gives up soon what nobody will answer, and asks another broker."""


def controller(hosts):
    try:
        return json.loads(hosts.tree.get("/controller")[0])["brokerid"]
    except NoNodeError:
        return None


def elected(hosts):
    """The controller, once there is one."""
    return wait_for(lambda: [found] if (found := controller(hosts)) is not None else [], "a controller")[0]


def life(hosts, broker):
    """Which registration of the broker this is; None while there is none."""
    found = hosts.tree.exists(f"/brokers/ids/{broker}")
    return found and found.czxid


def registered(hosts):
    return sorted(int(name) for name in hosts.tree.get_children("/brokers/ids"))


def state(hosts, topic, partition=0):
    """What the tree says, whatever the brokers that a client asks know."""
    return json.loads(hosts.tree.get(f"/brokers/topics/{topic.name}/partitions/{partition}/state")[0])


def all_in_sync(hosts, topic):
    return all(sorted(state(hosts, topic, index)["isr"]) == [0, 1, 2] for index in range(topic.count))


@as_root
def test_a_controller_cut_off_from_zookeeper_stops_and_another_leads(hosts):
    topic = Topic(hosts.brokers.bootstrap, "t", 3, min_insync_replicas="2")
    old = elected(hosts)
    with Load(hosts.brokers.bootstrap, topic, PROMPT) as load:
        load.await_more(200)
        hosts.cut(old, ZOOKEEPER)
        wait_for(lambda: controller(hosts) not in (None, old), "another controller")
        wait_for(lambda: hosts.said(old, "controller.resigned"), "the old one's resignation, although it heard nothing")
        wait_for(lambda: all(state(hosts, topic, index)["leader"] != old for index in range(3)), "leaders elsewhere")
        load.await_more(200)
        hosts.restore(old, ZOOKEEPER)
        wait_for(lambda: registered(hosts) == [0, 1, 2], "its registration")
        wait_for(lambda: all_in_sync(hosts, topic), "all replicas in sync")
        load.await_more(200)
        load.stop()
        assert_exact(load, stored(hosts.brokers.bootstrap, topic))


@as_root
def test_a_leader_cut_off_from_everybody_loses_its_place_and_nothing_else_is_lost(hosts):
    topic = Topic(hosts.brokers.bootstrap, "u", 1, min_insync_replicas="2")
    old = topic.led_by()
    with Load(hosts.brokers.bootstrap, topic, PROMPT) as load:
        load.await_more(200)
        hosts.network.unplug(old)
        wait_for(lambda: state(hosts, topic)["leader"] not in (old, -1), "another leader")
        load.await_more(200)
        hosts.network.plug(old)
        wait_for(lambda: registered(hosts) == [0, 1, 2], "its registration")
        wait_for(lambda: all_in_sync(hosts, topic), "all replicas in sync")
        load.stop()
        assert_exact(load, stored(hosts.brokers.bootstrap, topic))


@as_root
def test_two_brokers_cut_off_from_each_other_but_not_from_zookeeper(hosts):
    leads = elected(hosts)
    leader, follower = (number for number in (0, 1, 2) if number != leads)
    topic = Topic(hosts.brokers.bootstrap, "v", 1, leader=leader, min_insync_replicas="2")
    before = life(hosts, leader)
    with Load(hosts.brokers.bootstrap, topic, PROMPT) as load:
        load.await_more(200)
        hosts.cut(leader, follower)
        wait_for(lambda: follower not in state(hosts, topic)["isr"], "a smaller in-sync set")
        load.await_more(200)
        hosts.restore(leader, follower)
        wait_for(lambda: all_in_sync(hosts, topic), "all replicas in sync")
        if life(hosts, leader) == before:  # else its machine was so slow that its session ended
            assert state(hosts, topic)["leader_epoch"] == 0
        load.stop()
        assert_exact(load, stored(hosts.brokers.bootstrap, topic))
