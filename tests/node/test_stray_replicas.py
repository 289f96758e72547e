"""Replicas that were moved elsewhere while their broker was away, or while no controller could reach it."""

import pytest

from tests.node.one_broker import TOPIC, TOPIC_ID, OneBroker
from tidelog.wire.messages.cluster.controller_pushes import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

FULL, INCREMENTAL = 2, 1


def holding(known_epoch=1):
    """A broker that follows in epoch 3, partition epoch 7, and read which controller leads."""
    broker = OneBroker()
    broker.follow(epoch=3, partition_epoch=7)
    assert broker.partition() is not None
    broker.node.broker.controller.known_epoch = known_epoch
    return broker


def tell(broker, replicas, *, epoch=4, partition_epoch=8, kind=FULL, by=1, topic_id=TOPIC_ID):
    state = UpdateMetadataPartitionState(
        partition_index=0, leader=1, leader_epoch=epoch, isr=[1], zk_version=partition_epoch, replicas=list(replicas)
    )
    topic = UpdateMetadataTopicState(topic_name=TOPIC, topic_id=topic_id, partition_states=[state])
    request = UpdateMetadataRequest(controller_id=1, type=kind, controller_epoch=by, topic_states=[topic])
    assert broker.ask(request, 1).error_code == 0


def is_there(broker):
    return broker.partition() is not None


def test_a_newer_state_without_this_broker_takes_the_replica_away():
    broker = holding()
    tell(broker, (1, 2))
    assert not is_there(broker)
    assert [event.fields["partition"] for event in broker.events if event.kind == "replica.deleted"] == ["t-0"]


@pytest.mark.parametrize(
    "told",
    [
        {"replicas": (0, 1)},
        {"replicas": (1, 2), "epoch": 3, "partition_epoch": 7},
        {"replicas": (1, 2), "epoch": 2, "partition_epoch": 9},
        {"replicas": (1, 2), "topic_id": b"another-topic...".ljust(16, b".")},
        {"replicas": (1, 2), "kind": INCREMENTAL},
    ],
    ids=["assigned", "no news", "older", "another topic", "a part of all"],
)
def test_it_stays(told):
    broker = holding()
    tell(broker, **told)
    assert is_there(broker)


def test_a_controller_older_than_the_one_that_led_at_registration_takes_nothing_away():
    broker = holding(known_epoch=-1)
    tell(broker, (1, 2), by=1)
    broker.node.broker.controller.known_epoch = 2
    broker.give("wake")
    assert is_there(broker)
    tell(broker, (1, 2), by=2, kind=INCREMENTAL)
    assert not is_there(broker), "what was told in full is looked at once it may be believed"


def test_before_it_is_known_who_leads_nothing_goes():
    broker = holding(known_epoch=-1)
    tell(broker, (1, 2))
    assert is_there(broker)
    broker.node.broker.controller.known_epoch, broker.node.broker.controller.leader_id = 1, 1
    broker.give("wake")
    assert not is_there(broker), "the one may be known before the other"


def test_what_belongs_to_a_topic_that_nobody_knows_serves_nobody_but_stays():
    broker = holding()
    tell(broker, (1, 2), topic_id=b"another-topic...".ljust(16, b"."), kind=INCREMENTAL)
    assert broker.partition().role is not None, "not all was told"
    tell(broker, (1, 2), topic_id=b"another-topic...".ljust(16, b"."))
    assert is_there(broker)
    assert broker.partition().role is None


def test_a_replica_that_came_after_all_was_told_serves():
    broker = OneBroker()
    broker.node.broker.controller.known_epoch = -1
    tell(broker, (1, 2), topic_id=b"another-topic...".ljust(16, b"."))
    broker.follow(epoch=3, partition_epoch=7)
    broker.node.broker.controller.known_epoch, broker.node.broker.controller.leader_id = 1, 1
    broker.give("wake")
    assert broker.partition().role is not None
