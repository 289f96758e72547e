"""Controllers that listen at 0.0.0.0: a node that connects there reaches itself."""

from tests.node.quorum.quorum_cluster import PORTS, Process, QuorumCluster, directory
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint

EVERYWHERE = [VoterEndpoint(name="CONTROLLER", host="0.0.0.0", port=PORTS["CONTROLLER"])]


class Reaching(Process):
    def connect(self, connection, host, port):
        super().connect(connection, f"host-{self.number}" if host == "0.0.0.0" else host, port)


class Cluster(QuorumCluster):
    process = Reaching


def fails_over(cluster):
    cluster.start().settle()
    cluster.run(5_000)
    former = cluster.controller()
    cluster.kill(former)
    cluster.settle()
    cluster.start(former).settle()


def test_what_voters_say_they_are_reached_at_does_not_replace_their_addresses():
    cluster = Cluster(setup={"own_endpoints": EVERYWHERE})
    fails_over(cluster)
    voters = cluster.nodes[0].quorum.machine.voters
    assert [each.host for record in voters.records for each in record.endpoints] == [f"host-{n}" for n in range(3)]


def test_a_log_in_which_all_voters_are_at_all_addresses_is_no_hindrance():
    fails_over(
        Cluster(setup={"voters": VoterSet.of(voter_record(ReplicaKey(n, directory(n)), EVERYWHERE) for n in range(3))})
    )
