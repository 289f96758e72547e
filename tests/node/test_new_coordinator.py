"""A broker becomes the coordinator of transactions before it hears of all that happened: roles come before metadata, and
a topic that it does not know yet is none that is gone."""

import pytest

from tests.node.one_broker import WALL, OneBroker
from tidelog.coordinator.contract import Change
from tidelog.coordinator.transaction.records import encode
from tidelog.coordinator.transaction.transaction import Transaction, TransactionState
from tidelog.model import TRANSACTION_TOPIC, TopicPartition
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from tidelog.wire.records import Record, build

NEW = "new"
TOPIC_IDS = {TRANSACTION_TOPIC: b"x" * 16, NEW: b"y" * 16}


def state(topic, leader, epoch):
    partition = UpdateMetadataPartitionState(
        partition_index=0, leader=leader, leader_epoch=epoch, isr=[leader], replicas=[0, 1]
    )
    return UpdateMetadataTopicState(topic_name=topic, topic_id=TOPIC_IDS[topic], partition_states=[partition])


@pytest.fixture
def broker():
    """It followed, and leads now what holds a decision about `new-0`; its metadata is older than both."""
    broker = OneBroker(min_insync_replicas=1, transaction_state_log_num_partitions=1)
    broker.live(0, 1, topic_states=[state(TRANSACTION_TOPIC, leader=1, epoch=0)])
    decided = Transaction("id", 7, 3, TransactionState.PREPARE_COMMIT, 60_000, frozenset({TopicPartition(NEW, 0)}))
    key, value = encode(Change("id", decided))
    given = {"topic": TRANSACTION_TOPIC, "topic_id": TOPIC_IDS[TRANSACTION_TOPIC], "isr": (0, 1)}
    broker.follow(**given)
    log = broker.node.replicas.get(TRANSACTION_TOPIC, 0).log
    log.append_as_leader(bytearray(build([Record(0, WALL, key, value)])), 0, broker.now)
    broker.lead(**{**given, "isr": (0,)}, epoch=1, partition_epoch=1)
    return broker


def end(broker):
    return broker.node.replicas.get(TRANSACTION_TOPIC, 0).log.log_end_offset


def markers(broker):
    return [request for _, (_, request) in broker.asked if isinstance(request, WriteTxnMarkersRequest)]


def test_the_marker_is_written_when_the_metadata_comes(broker):
    broker.passes(200)
    assert end(broker) == 1, "the transaction is not complete"
    broker.live(0, 1, topic_states=[state(TRANSACTION_TOPIC, leader=0, epoch=1), state(NEW, leader=1, epoch=0)])
    broker.passes(200)
    broker.give("connected", broker.dialled, "REPLICATION", "broker-1", "")
    (marker,) = markers(broker)[-1].markers
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [(NEW, [0])]


def test_a_topic_that_the_metadata_does_not_report_is_gone(broker):
    broker.live(0, 1, topic_states=[state(TRANSACTION_TOPIC, leader=0, epoch=1)])
    broker.passes(200)
    assert end(broker) == 2, "complete: there is nothing to mark"
