"""AlterPartition: compare-and-set on both epochs (I16), eligibility by broker epoch, retries."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.errors import ErrorCode
from tidelog.ports import Create
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest
from tidelog.wire.messages.cluster.controller_pushes import LeaderAndIsrRequest
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)


@pytest.fixture
def cluster():
    cluster = FakeCluster().start()
    assert cluster.create("t", assignments={0: (0, 1, 2)}).error_code == 0
    return cluster


def members(cluster, *brokers):
    return [(id_, cluster.brokers[id_].epoch) for id_ in brokers]


def test_a_leader_shrinks_and_expands(cluster):
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    answer = cluster.alter(leader, partition, members(cluster, 0, 2))
    assert (answer.error_code, answer.isr, answer.leader_id, answer.leader_epoch) == (0, [0, 2], 0, 0)
    assert answer.partition_epoch == partition.version == 1
    answer = cluster.alter(leader, partition, members(cluster, 0, 2, 1))
    assert (answer.isr, answer.partition_epoch) == ([0, 2, 1], 2)
    assert partition.state.leader_epoch == 0
    for broker in cluster.brokers.values():
        assert broker.image.partition("t", 0).isr == [0, 2, 1]
        assert broker.image.partition("t", 0).partition_epoch == 2


def test_the_leader_hears_by_the_answer_alone(cluster):
    before = len(cluster.brokers[0].received)
    cluster.alter(cluster.brokers[0], cluster.partition("t"), members(cluster, 0, 1))
    assert not any(isinstance(request, LeaderAndIsrRequest) for request in cluster.brokers[0].received[before:])


def test_a_retry_whose_request_holds_succeeds_with_the_present_epoch(cluster):
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    cluster.alter(leader, partition, members(cluster, 0, 1))
    again = cluster.alter(leader, partition, members(cluster, 0, 1), partition_epoch=0)
    assert (again.error_code, again.isr, again.partition_epoch) == (0, [0, 1], 1)
    assert partition.version == 1


def test_a_retry_jumps_over_no_change_that_its_leader_did_not_know_of(cluster):
    """Seed 300363: it took the answer's epoch and refused the new replicas, told late, as old: the move hung."""
    cluster.create("m", assignments={0: (0, 1)})
    partition, leader = cluster.partition("m"), cluster.brokers[0]
    cluster.alter(leader, partition, members(cluster, 0))
    wished = ReassignableTopic(name="m", partitions=[ReassignablePartition(partition_index=0, replicas=[0, 1, 2])])
    assert cluster.ask(AlterPartitionReassignmentsRequest(topics=[wished])).error_code == 0
    again = cluster.alter(leader, partition, members(cluster, 0), partition_epoch=0)
    assert again.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"partition_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        ({"topic_id": bytes(16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker_epoch": 3}, ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_stale_or_unknown_requests_are_refused(cluster, fields, code):
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    cluster.alter(leader, partition, members(cluster, 0, 1))
    assert cluster.alter(leader, partition, members(cluster, 0, 2), **fields).error_code == code
    assert partition.state.isr == (0, 1)


def test_an_older_leader_epoch_is_fenced(cluster):
    partition = cluster.partition("t")
    cluster.brokers[0].stop_cleanly()
    cluster.brokers[0].start()
    cluster.settle()
    partition = cluster.partition("t")
    leader = cluster.brokers[partition.state.leader]
    answer = cluster.alter(leader, partition, members(cluster, leader.id), leader_epoch=0)
    assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_only_the_leader_may_ask(cluster):
    answer = cluster.alter(cluster.brokers[1], cluster.partition("t"), members(cluster, 1, 0))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("isr", [[], [1, 2], [0, 0], [0, 7]])
def test_an_isr_that_cannot_be(cluster, isr):
    wish = [(id_, -1) for id_ in isr]
    answer = cluster.alter(cluster.brokers[0], cluster.partition("t"), wish)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_another_life_of_a_follower_is_ineligible(cluster):
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    old = members(cluster, 0, 1)
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    cluster.settle()
    assert partition.state.isr == (0, 2)
    assert cluster.alter(leader, partition, old).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.alter(leader, partition, members(cluster, 0, 2, 1)).error_code == 0


def test_a_broker_that_shuts_down_is_ineligible(cluster):
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch)
    assert cluster.ask(request).error_code == 0
    answer = cluster.alter(cluster.brokers[0], cluster.partition("t"), members(cluster, 0, 2, 1))
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA


def test_two_requests_at_once_are_one_after_the_other(cluster):
    """The second one carries the partition epoch of before the first: it must not win."""
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    tokens = []
    for isr in ((0, 1), (0, 2)):
        wish = cluster.wish(partition, members(cluster, *isr))
        request = AlterPartitionRequest(broker_id=0, broker_epoch=leader.epoch, topics=[wish])
        tokens.append(cluster.submit(request))
    cluster.settle()
    first, second = (cluster.replies[token].topics[0].partitions[0] for token in tokens)
    assert (first.error_code, first.isr, first.partition_epoch) == (0, [0, 1], 1)
    assert second.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_a_request_behind_the_followers_death_finds_the_newer_state(cluster):
    """The follower dies while the leader asks to keep it: whichever comes first, the other one sees it."""
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    wish = cluster.wish(partition, members(cluster, 0, 1))
    cluster.brokers[1].kill()
    cluster.tell_events()
    token = cluster.submit(AlterPartitionRequest(broker_id=0, broker_epoch=leader.epoch, topics=[wish]))
    cluster.settle()
    answer = cluster.replies[token].topics[0].partitions[0]
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert partition.state.isr == (0, 2)


def test_a_replica_whose_log_folder_failed_does_not_join(cluster):
    """Seed 300113: its leader still took it for caught up, and then waited for it with every commit."""
    partition, leader = cluster.partition("t"), cluster.brokers[0]
    cluster.brokers[1].failed_folders.add(("t", 0))
    notice = Create(f"{tree.LOG_DIR_EVENTS}/log_dir_event_0", tree.format_log_dir_event(1))
    cluster.brokers[1].session.apply([notice])
    cluster.settle()
    assert (partition.state.isr, partition.offline) == ((0, 2), {1})
    answer = cluster.alter(leader, partition, members(cluster, 0, 2, 1))
    assert answer.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert partition.state.isr == (0, 2)
