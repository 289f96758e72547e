"""What the leader of the quorum reports of it (DescribeQuorum), and what others answer."""

import pytest

from tests.node.quorum.quorum_cluster import WALL, QuorumCluster, directory
from tidelog.errors import ErrorCode
from tidelog.quorum.describing import OBSERVED_FOR_MS, describe
from tidelog.quorum.states import Progress
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.messages.cluster.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData


def request(topic="__cluster_metadata", *partitions):
    wanted = [PartitionData(partition_index=index) for index in partitions or (0,)]
    return DescribeQuorumRequest(topics=[TopicData(topic_name=topic, partitions=wanted)])


@pytest.fixture(scope="module")
def cluster():
    cluster = QuorumCluster().start()
    cluster.settle()
    cluster.run(2_000)
    return cluster


def asked(cluster, number, wanted):
    return describe(cluster.nodes[number].quorum.machine, wanted, cluster.now)


def test_the_leader_describes_voters_and_observers(cluster):
    leader = cluster.controller()
    machine = cluster.nodes[leader].quorum.machine
    seen, gone = ReplicaKey(7, bytes(16)), ReplicaKey(8, bytes(16))
    now = cluster.now.mono
    machine.state.replicas |= {
        seen: Progress(3, now - 1_000, now - 2_000),
        gone: Progress(3, now - OBSERVED_FOR_MS - 1, now),
        ReplicaKey((leader + 1) % 3, bytes(16)): Progress(1, now, now),
    }
    response = asked(cluster, leader, request())
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, leader, machine.epoch)
    assert partition.high_watermark == machine.replica.high_watermark > 0
    assert [(each.replica_id, each.replica_directory_id) for each in partition.current_voters] == [
        (number, directory(number)) for number in range(3)
    ]
    assert {each.log_end_offset for each in partition.current_voters} == {machine.replica.end}
    own = partition.current_voters[leader]
    assert own.last_fetch_timestamp == own.last_caught_up_timestamp == WALL + now
    other, observer = partition.observers
    assert other.replica_id == (leader + 1) % 3, "a voter with another directory is another replica"
    assert (observer.replica_id, observer.log_end_offset) == (7, 3)
    assert (observer.last_fetch_timestamp, observer.last_caught_up_timestamp) == (
        WALL + now - 1_000,
        WALL + now - 2_000,
    )
    assert [node.node_id for node in response.nodes] == [0, 1, 2]


def test_others_refuse(cluster):
    follower = (cluster.controller() + 1) % 3
    for number, wanted, code in (
        (follower, request(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (cluster.controller(), request("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (cluster.controller(), request("__cluster_metadata", 0, 1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        response = asked(cluster, number, wanted)
        assert {each.error_code for topic in response.topics for each in topic.partitions} == {code}
        assert [each.partition_index for each in response.topics[0].partitions] == [
            each.partition_index for each in wanted.topics[0].partitions
        ]
