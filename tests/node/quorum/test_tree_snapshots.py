"""Snapshots of the tree that nodes make of their own copy, load at their start, and fetch when they were away."""

from tests.node.quorum.quorum_cluster import QuorumCluster
from tidelog.ports import Create, Write
from tidelog.quorum.options import DEFAULTS

SETUP = {
    "snapshot_bytes": 20_000,
    "segment_bytes": 16_384,
    "options": DEFAULTS._replace(retention_bytes=1, fetch_bytes=4_096, snapshot_bytes=1_000),
}


def follower_of(cluster):
    return next(number for number in range(3) if number != cluster.controller())


def fill(cluster, number, count, begin=0):
    for index in range(begin, begin + count):
        results = cluster.submit(number, Write("/cluster/x", b"%05d" % index * 100))
        cluster.wait(lambda results=results: results)
        assert results[0].outcome == "ok"


def filled():
    cluster = QuorumCluster(setup=SETUP).start()
    cluster.settle()
    created = cluster.submit(0, Create("/cluster/x", b""))
    cluster.wait(lambda: created)
    return cluster


def replica(cluster, number):
    return cluster.nodes[number].quorum.machine.replica


def test_a_tree_is_loaded_from_its_snapshot_and_the_log_after_it():
    cluster = filled()
    fill(cluster, 0, 100)
    cluster.wait(lambda: all(replica(cluster, number).log.log_start_offset > 0 for number in range(3)))
    cluster.run(1_000)
    before = cluster.tree(0).nodes
    for number in range(3):
        cluster.kill(number)
    cluster.start()
    cluster.settle()
    for number in range(3):
        nodes = cluster.tree(number).nodes
        cluster.tree(number).check_invariants()
        assert nodes["/cluster/x"] == before["/cluster/x"]
        assert nodes["/cluster/id"] == before["/cluster/id"]


def test_a_node_that_was_away_fetches_a_snapshot_and_goes_on():
    cluster = filled()
    away = follower_of(cluster)
    cluster.kill(away)
    cluster.settle()
    stays = next(number for number in cluster.nodes if number != cluster.controller())
    fill(cluster, stays, 100)
    end = cluster.nodes[stays].quorum.local.applied
    cluster.wait(lambda: replica(cluster, cluster.controller()).log.log_start_offset > 50)
    cluster.start(away)
    cluster.wait(lambda: cluster.nodes[away].quorum.local.applied >= end)
    cluster.settle()
    cluster.tree(away).check_invariants()
    assert cluster.tree(away).nodes["/cluster/x"] == cluster.tree(stays).nodes["/cluster/x"]
    fill(cluster, away, 3, 1_000)
