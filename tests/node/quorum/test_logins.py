"""Who logs in by SCRAM to a node of a metadata quorum that does not have the tree yet, or only that of the past."""

import pytest

from tests.node.quorum.quorum_cluster import FOLDER, QuorumCluster
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.features import founding
from tidelog.node.quorum import member
from tidelog.ports import Create, Write
from tidelog.quorum.committed_file import load_committed
from tidelog.quorum.replica import SAVE_EVERY_MS
from tidelog.security import scram

NAME = "SCRAM-SHA-256"
MECHANISM = scram.MECHANISMS[NAME]
USER = f"{tree.USER_CONFIGS}/alice"
METADATA = f"{FOLDER}/__cluster_metadata-0"
CLIENTS, NODES = {"SASL_PLAINTEXT"}, {"REPLICATION", "CONTROLLER"}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="old";'
OPTIONS = {
    "process.roles": "broker,controller",
    "controller.quorum.bootstrap.servers": "x:9094",
    "controller.listener.names": "CONTROLLER",
    "listeners": "SASL_PLAINTEXT://x:9092,REPLICATION://x:9093,CONTROLLER://x:9094",
    "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in sorted(CLIENTS | NODES)),
    "sasl.enabled.mechanisms": NAME,
    "sasl.mechanism.inter.broker.protocol": NAME,
    "sasl.mechanism.controller.protocol": NAME,
    "sasl.jaas.config": LOGIN,
}


def credential(password):
    salted = scram.salted(MECHANISM, password, b"salt", scram.MIN_ITERATIONS)
    return scram.credential(MECHANISM, salted, b"salt", scram.MIN_ITERATIONS)


OLD, NEW = credential("old"), credential("new")
FORMATTED = {NAME: scram.format_credential(OLD)}


def lone(**setup):
    """A node whose folder was formatted with alice, whom it writes into the tree."""
    first = [Create(tree.CLUSTER_ID, tree.format_cluster_id("c")), *founding(BrokerConfig({}))]
    users = {"alice": FORMATTED}
    first.append(Create(USER, tree.format_config(FORMATTED)))
    return QuorumCluster(size=1, setup={"users": users, "founding": first, **setup}, **OPTIONS)


def who_knows(cluster, expected):
    """The listeners on which alice logs in so."""
    found = cluster.nodes[0].broker.sasl.items()
    accounts = {name: side._accounts(NAME, "alice", False) for name, side in found}
    return {name for name, account in accounts.items() if account is not None and account.credential == expected}


def test_users_of_the_folder_log_in_on_the_listeners_of_nodes_until_something_is_committed():
    cluster = lone().start()
    assert who_knows(cluster, OLD) == NODES
    cluster.wait(lambda: load_committed(cluster.disks[0], METADATA).high_watermark)
    cluster.kill(0)
    cluster.start()
    local = cluster.nodes[0].quorum.local
    assert (local.applied > 0, tree.CLUSTER_ID in local.tree.nodes) == (True, False), (
        "only the first records of a leader"
    )
    assert who_knows(cluster, OLD) == NODES, "without a login there would never be another leader"
    cluster.settle()
    assert who_knows(cluster, OLD) == NODES | CLIENTS


@pytest.mark.parametrize("snapshot_bytes", [1, 1_000_000])
def test_a_password_of_the_past_is_not_good_at_a_restart(monkeypatch, snapshot_bytes):
    """The tree is loaded from a snapshot in slices, or from the log in turns."""
    cluster = lone(snapshot_bytes=snapshot_bytes).start()
    cluster.settle()
    cluster.submit(0, Write(USER, tree.format_config({NAME: scram.format_credential(NEW)})))
    cluster.run(3 * SAVE_EVERY_MS)
    assert who_knows(cluster, NEW) == NODES | CLIENTS
    assert bool(cluster.nodes[0].quorum.machine.replica.snapshots.newest.end_offset) == (snapshot_bytes == 1)
    cluster.kill(0)
    monkeypatch.setattr(member, "WORK_A_TURN", 1)
    cluster.start()
    loading = 0
    while not who_knows(cluster, NEW):
        loading += 1
        assert not who_knows(cluster, OLD)
        cluster._next()
    assert loading > 1
    assert who_knows(cluster, NEW) == NODES | CLIENTS
