"""Nodes that know nothing of the quorum but a bootstrap server: they find the leader, and can be made voters."""

import pytest

from tests.node.quorum.quorum_cluster import PORTS, QuorumCluster, directory
from tests.node.quorum.test_kraft_version import ask
from tidelog.wire.messages.cluster.quorum_voters import AddRaftVoterRequest, Listener


def leader_moved_away(cluster):
    """Node 0, the bootstrap server, follows."""
    cluster.settle()
    if cluster.controller() == 0:
        cluster.kill(0)
        cluster.settle()
        cluster.start(0)
        cluster.settle()
    return cluster.controller()


@pytest.mark.parametrize("seed", range(3))
def test_a_broker_finds_the_leader_by_a_follower(seed):
    cluster = QuorumCluster(size=4, voters=3, seed=seed).start(0, 1, 2)
    leader = leader_moved_away(cluster)
    assert leader != 0
    cluster.start(3)
    cluster.settle()
    quorum = cluster.nodes[3].quorum
    assert quorum.machine.voters.ids == (0, 1, 2)
    assert (quorum.kraft_version, quorum.machine.is_voter) == (1, False)
    cluster.kill(leader)  # the voters are known from the log by now
    cluster.settle()


def test_it_finds_the_next_leader_after_a_restart_without_the_first_one():
    cluster = QuorumCluster(size=4, voters=3).start()
    cluster.settle()
    cluster.kill(3)
    cluster.kill(cluster.controller())
    cluster.start(3)
    cluster.settle()


def test_it_becomes_a_voter():
    cluster = QuorumCluster(size=4, voters=3).start()
    cluster.settle()
    listener = Listener(name="CONTROLLER", host="host-3", port=PORTS["CONTROLLER"])
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=5_000,
        voter_id=3,
        voter_directory_id=directory(3),
        listeners=[listener],
        ack_when_committed=True,
    )
    assert ask(cluster, 0, request).error_code == 0
    cluster.wait(lambda: all(node.quorum.machine.voters.ids == (0, 1, 2, 3) for node in cluster.nodes.values()))
    assert cluster.nodes[3].quorum.machine.is_voter
