"""What a broker reports to the controller that looks for the most complete log (rule 8)."""

from tests.node.one_broker import CONTROLLER, TOPIC
from tests.node.test_peers_that_hang import registered
from tidelog.controller.commands.elections import LATEST_EPOCH, LOG_END_QUERY
from tidelog.errors import ErrorCode
from tidelog.model import NO_EPOCH
from tidelog.wire.messages.records.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def log_end(broker, epoch):
    """(error code, last epoch, log end offset), asked by a controller whose state has this epoch."""
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=LATEST_EPOCH)
    topics = [OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])]
    answer = broker.ask(OffsetForLeaderEpochRequest(replica_id=LOG_END_QUERY, topics=topics), CONTROLLER)
    assert answer.broker_epoch == broker.node.broker.broker_epoch
    found = answer.topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


def test_a_leader_reports_its_end_when_it_knows_that_it_leads_no_more():
    """Seed 3009822: before, it may append behind what it reported."""
    broker = registered()
    assert broker.node.broker.broker_epoch != NO_EPOCH
    broker.lead()
    broker.produce("m1", "m2", acks=1)
    assert log_end(broker, 1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    broker.produce("m3", acks=1)
    broker.follow(leader=-1, epoch=1, partition_epoch=1)
    assert log_end(broker, 1) == (ErrorCode.NONE, 0, 3)
    assert log_end(broker, 0) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)


def test_of_a_replica_that_is_not_here_nothing_is_reported():
    assert log_end(registered(), 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
