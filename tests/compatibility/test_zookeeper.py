"""Three broker processes on ZooKeeper: what an operator does with zkCli, sessions that expire, and ZooKeeper away."""

import json
import os
import shutil
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.compatibility.support import Load, Topic, assert_exact, controller_of, stored
from tests.ensemble import Ensemble
from tests.processes import Processes
from tests.shell.killed_with_acls import ANYTHING, check_acls_survive, creation
from tests.shell.killed_with_tokens import check_tokens_and_users_survive
from tests.shell.test_acls import SECURED, logged_in_at
from tests.waiting import wait_for
from tidelog.errors import ErrorCode
from tidelog.security.acls import PatternType
from tidelog.wire.messages.security.acls import CreateAclsRequest, DeleteAclsFilter, DeleteAclsRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

TERM_MS = 3000
OPERATOR_S = 60
"""An operator's session outlives every pause."""
CHROOTS = count()


class Cluster(Processes):
    """Brokers on ZooKeeper, and an operator's client of the same tree."""

    def __init__(self, folder, hosts, chroot, **overrides):
        options = {
            "zookeeper.connect": hosts + chroot,
            "zookeeper.session.timeout.ms": str(TERM_MS),
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in overrides.items()},
        }
        super().__init__(folder, brokers=3, port=0, overrides=options, report=lambda line: None)
        self.place = hosts + chroot
        self.tree = KazooClient(self.place, timeout=OPERATOR_S)

    def start(self, **given):
        super().start(**given)
        self.tree.start()

    def stop(self):
        self.tree.stop()
        self.tree.close()
        super().stop()

    def look_anew(self):
        """The server was away: the operator begins another session."""
        self.tree.stop()
        self.tree.close()
        self.tree = KazooClient(self.place, timeout=OPERATOR_S)
        self.tree.start()

    def read(self, path):
        """What a node holds, or None."""
        try:
            return json.loads(self.tree.get(path)[0] or b"null")
        except NoNodeError:
            return None

    @property
    def admin(self):
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def controller(self):
        """Who leads by the word of the tree, once it does, or None."""
        found = self.read("/controller")
        return found and found["brokerid"]

    def epoch(self, broker):
        """The broker epoch, or None while it is not registered."""
        stat = self.tree.exists(f"/brokers/ids/{broker}")
        return stat and stat.czxid

    def await_new_controller(self, epoch):
        wait_for(lambda: self.controller() is not None and self.read("/controller_epoch") > epoch, "a new controller")
        wait_for(lambda: controller_of(self.bootstrap) == self.controller(), "that all know the controller")


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), zookeeper.hosts, f"/compatibility/{next(CHROOTS)}") as running:
        yield running


@contextmanager
def own(folder, term_ms):
    """Brokers and a server that the test may stop."""
    term = {"zookeeper_session_timeout_ms": str(term_ms)}
    with Ensemble(folder) as ensemble, Cluster(folder / "cluster", ensemble.hosts, "/own", **term) as running:
        yield ensemble.servers[0], running


def test_the_tree_is_kafkas(zookeeper, tmp_path):
    """With sessions that no pause ends: who leads first is in it."""
    chroot = f"/compatibility/{next(CHROOTS)}"
    with Cluster(tmp_path, zookeeper.hosts, chroot, zookeeper_session_timeout_ms="60000") as cluster:
        look_at_the_tree(cluster)


def look_at_the_tree(cluster):
    topic = Topic(cluster.bootstrap, "tree", 2, leader=1, retention_ms="1234567")
    state = cluster.read("/brokers/topics/tree/partitions/0/state")
    assert (state["leader"], state["leader_epoch"], state["isr"], state["version"]) == (1, 0, [1, 0, 2], 1)
    assert state["controller_epoch"] == cluster.read("/controller_epoch")
    nodes = cluster.read("/brokers/topics/tree")
    assert (nodes["version"], nodes["partitions"]) == (3, {"0": [1, 0, 2], "1": [1, 0, 2]})
    assert cluster.read("/config/topics/tree") == {"version": 1, "config": {"retention.ms": "1234567"}}
    for child in cluster.children:
        broker = cluster.read(f"/brokers/ids/{child.number}")
        assert broker["version"] == 5
        assert f"PLAINTEXT://{child.host}:{child.port}" in broker["endpoints"]
        assert (broker["host"], broker["port"]) == (child.host, child.port)
        assert cluster.tree.exists(f"/brokers/ids/{child.number}").ephemeralOwner != 0
    assert cluster.read("/controller")["brokerid"] == controller_of(cluster.bootstrap)
    assert topic.led_by() == 1


def test_records_are_exact_while_the_controller_node_is_deleted_and_leaders_are_killed(cluster):
    topic = Topic(cluster.bootstrap, "loaded", 3)
    with Load(cluster.bootstrap, topic) as load:
        load.await_more(500)
        epoch = cluster.read("/controller_epoch")
        cluster.tree.delete("/controller")
        cluster.await_new_controller(epoch)
        load.await_more(500)
        victim = topic.led_by()
        cluster.kill(victim)
        wait_for(lambda: topic.leader() not in (victim, -1), "another leader")
        load.await_more(500)
        cluster.start_broker(victim)
        cluster.wait_ready()
        wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all replicas in sync")
        load.stop()
        assert_exact(load, stored(cluster.bootstrap, topic))


def test_an_expired_session_is_followed_by_a_registration_with_a_higher_epoch(cluster):
    topic = Topic(cluster.bootstrap, "expired", 1)
    victim = topic.led_by()
    before = cluster.epoch(victim)
    cluster.children[victim].signal(signal.SIGSTOP)
    wait_for(lambda: cluster.epoch(victim) is None, "the end of the session")
    # Of the tree: a client may be waiting for the broker that stands still.
    state = "/brokers/topics/expired/partitions/0/state"
    wait_for(lambda: cluster.read(state)["leader"] not in (victim, -1), "another leader")
    cluster.children[victim].signal(signal.SIGCONT)
    wait_for(lambda: (cluster.epoch(victim) or 0) > before, "its registration")
    wait_for(lambda: topic.isrs()[0] == [0, 1, 2], "its return into the in-sync set")


def test_a_killed_broker_of_a_cluster_that_restarts_them_is_back_long_before_its_session_would_have_ended(
    zookeeper, tmp_path
):
    chroot = f"/compatibility/{next(CHROOTS)}"
    with Cluster(tmp_path, zookeeper.hosts, chroot, zookeeper_session_timeout_ms="60000") as cluster:
        cluster.restart = True
        read_fd, write_fd = os.pipe()
        watching = threading.Thread(target=cluster.watch, args=(read_fd,))
        watching.start()
        try:
            victim, epoch = cluster.controller(), cluster.read("/controller_epoch")
            before = cluster.epoch(victim)
            cluster.children[victim].signal(signal.SIGKILL)
            wait_for(lambda: cluster.read("/controller_epoch") > epoch, "another controller", within_s=45)
            wait_for(lambda: (cluster.epoch(victim) or 0) > before, "its registration", within_s=45)
        finally:
            os.write(write_fd, b"x")
            watching.join()
            os.close(read_fd)
            os.close(write_fd)


def test_a_stuck_deletion_is_freed_by_its_mark_the_folders_and_the_controller(cluster):
    topic = Topic(cluster.bootstrap, "stuck", 2)
    victim = next(number for number in range(3) if number != cluster.controller())
    cluster.kill(victim)
    wait_for(lambda: cluster.epoch(victim) is None, "the end of the session")
    admin = cluster.admin
    admin.delete_topics(["stuck"], operation_timeout=1)["stuck"].result(60)
    wait_for(lambda: cluster.tree.get_children("/admin/delete_topics") == ["stuck"], "the mark")
    # As the documents have it: the mark, the folders, the controller.
    cluster.tree.delete("/admin/delete_topics/stuck")
    for folder in cluster.children[victim].folder.glob("stuck-*"):
        shutil.rmtree(folder)
    epoch = cluster.read("/controller_epoch")
    cluster.tree.delete("/controller")
    cluster.await_new_controller(epoch)
    wait_for(lambda: all(leader not in (victim, -1) for leader in (topic.leader(0), topic.leader(1))), "leaders")
    cluster.start_broker(victim)
    cluster.wait_ready()
    wait_for(lambda: all(len(isr) == 3 for isr in topic.isrs().values()), "all replicas in sync")
    admin.delete_topics(["stuck"], operation_timeout=30)["stuck"].result(60)
    wait_for(lambda: cluster.tree.exists("/brokers/topics/stuck") is None, "the topic to go")
    wait_for(lambda: cluster.tree.get_children("/admin/delete_topics") == [], "the mark to go")
    wait_for(lambda: not [f for child in cluster.children for f in child.folder.glob("stuck-*")], "folders that go")


def test_nodes_below_admin_start_moves_and_elections(cluster):
    topic = Topic(cluster.bootstrap, "asked", 1, leader=0)
    wish = {"version": 1, "partitions": [{"topic": "asked", "partition": 0, "replicas": [1, 2, 0]}]}
    cluster.tree.create("/admin/reassign_partitions", json.dumps(wish).encode())
    wait_for(lambda: cluster.read("/brokers/topics/asked")["partitions"] == {"0": [1, 2, 0]}, "the new order")
    wait_for(lambda: not cluster.tree.exists("/admin/reassign_partitions"), "the node to go")
    wish = {"version": 1, "partitions": [{"topic": "asked", "partition": 0}]}
    cluster.tree.create("/admin/preferred_replica_election", json.dumps(wish).encode())
    wait_for(lambda: topic.leader() == 1, "the first replica's leadership")
    wait_for(lambda: not cluster.tree.exists("/admin/preferred_replica_election"), "the node to go")
    cluster.tree.create("/admin/delete_topics/asked")
    wait_for(lambda: not cluster.tree.exists("/brokers/topics/asked"), "the topic to go")


def test_zookeeper_away_for_less_than_a_term_changes_nothing(tmp_path):
    with own(tmp_path, 20 * TERM_MS) as (server, cluster):
        topic = Topic(cluster.bootstrap, "t", 3)
        before = [cluster.epoch(number) for number in range(3)], cluster.controller(), cluster.read("/controller_epoch")
        with Load(cluster.bootstrap, topic) as load:
            load.await_more(200)
            server.stop()
            load.await_more(200)
            server.start()
            server.wait()
            cluster.look_anew()
            load.await_more(200)
            # What is created now goes through the controller, which has its session still.
            Topic(cluster.bootstrap, "u", 1)
            load.stop()
            assert_exact(load, stored(cluster.bootstrap, topic))
        assert [cluster.epoch(number) for number in range(3)] == before[0]
        assert (cluster.controller(), cluster.read("/controller_epoch")) == before[1:]


def test_zookeeper_away_for_longer_stops_the_controller_but_no_producer(tmp_path):
    term_ms = TERM_MS // 2
    with own(tmp_path, term_ms) as (server, cluster):
        topic = Topic(cluster.bootstrap, "t", 3)
        admin = cluster.admin
        with Load(cluster.bootstrap, topic) as load:
            load.await_more(200)
            server.stop()
            gone_at = time.monotonic()

            def is_over():
                load.await_more(100)
                return time.monotonic() > gone_at + 2 * term_ms / 1000

            wait_for(is_over, "the end of the term, with records acknowledged all the while")
            assert not _made(admin, "refused", within_s=1)
            server.start()
            server.wait()
            cluster.look_anew()
            wait_for(lambda: cluster.controller() is not None, "a controller")
            wait_for(lambda: _made(admin, "later"), "a topic that can be created")
            load.await_more(200)
            load.stop()
            assert_exact(load, stored(cluster.bootstrap, topic))


def _made(admin, name, within_s=10):
    """Whether the topic could be created, by now or before."""
    topic = NewTopic(name, 1, 3)
    try:
        admin.create_topics([topic], operation_timeout=within_s, request_timeout=within_s)[name].result(60)
    except KafkaException as error:
        return error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    return True


def test_acls_survive_a_kill(zookeeper, tmp_path, free_ports):
    place = f"{zookeeper.hosts}/compatibility/{next(CHROOTS)}"
    check_acls_survive(tmp_path, free_ports(3), {"zookeeper.connect": place})
    tree = KazooClient(place, timeout=OPERATOR_S)
    tree.start()
    try:
        entry = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
        assert json.loads(tree.get("/kafka-acl-extended/prefixed/Topic/fl")[0]) == {"version": 1, "acls": [entry]}
        assert tree.get_children("/kafka-acl/Topic") == ["percent:a%2Fb"]
        assert tree.get("/kafka-acl-changes/acl_changes_0000000000")[0] == b"TOPIC:t"
    finally:
        tree.stop()
        tree.close()


def test_delegation_tokens_survive_a_kill(zookeeper, tmp_path, free_ports):
    place = f"{zookeeper.hosts}/compatibility/{next(CHROOTS)}"
    made = check_tokens_and_users_survive(tmp_path, free_ports(3), {"zookeeper.connect": place})
    tree = KazooClient(place, timeout=OPERATOR_S)
    tree.start()
    try:
        kept = json.loads(tree.get(f"/delegation_token/tokens/{made.token_id}")[0])
        assert (kept["version"], kept["owner"], kept["maxTimestamp"]) == (3, "User%3Aalice", made.max_timestamp_ms)
        assert tree.get("/delegation_token/token_changes/token_change_0000000000")[0] == made.token_id.encode()
    finally:
        tree.stop()
        tree.close()


EFFECTIVE_WITHIN_S = 1.0
"""What docs/security.md promises for a change of ACLs: on all brokers, and for connections that are open."""


def test_acls_take_effect_on_all_brokers_within_a_second(zookeeper, tmp_path, free_ports):
    """The quickest of ten changes counts: brokers that looked for changes at an interval would be later each time, and a
    machine that is busy for a while is not."""
    place = f"{zookeeper.hosts}/compatibility/{next(CHROOTS)}"
    options = {**{name: text for name, text in SECURED.items() if name != "listeners"}, "zookeeper.connect": place}
    secured, between = free_ports(3), free_ports(3)
    cluster = Processes(tmp_path, brokers=3, port=0, overrides=options, report=lambda _: None)
    for child, *ports in zip(cluster.children, secured, between, strict=True):
        named = zip(("SASL_PLAINTEXT", "REPLICATION"), ports, strict=True)
        child.more_listeners = tuple(f"{name}://127.0.0.1:{port}" for name, port in named)
    with ExitStack() as stack:
        stack.enter_context(cluster)
        admin = stack.enter_context(logged_in_at(secured[0], "admin"))
        alices = [stack.enter_context(logged_in_at(port, "alice")) for port in secured]
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)

        def may(wire):
            return wire.ask(3, 9, request).topics[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED

        took_s = []
        for allowed in [True, False] * 5:
            if allowed:
                change = CreateAclsRequest(creations=[creation("t", PatternType.LITERAL)])
                assert admin.ask(30, 3, change).results[0].error_code == 0
            else:
                change = DeleteAclsRequest(filters=[DeleteAclsFilter(**ANYTHING)])
                assert len(admin.ask(31, 3, change).filter_results[0].matching_acls) == 1
            began = time.monotonic()
            for wire in alices:
                wait_for(lambda wire=wire, allowed=allowed: may(wire) == allowed, "the change")
            took_s.append(time.monotonic() - began)
    assert min(took_s) < EFFECTIVE_WITHIN_S
