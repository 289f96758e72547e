"""What a controller sent arrives after what it sent later, or is not a controller's at all."""

import pytest

from tests.node.one_broker import CONTROLLER, TOPIC, TOPIC_ID, OneBroker
from tidelog.config.broker import BrokerConfig
from tidelog.controller import tree
from tidelog.controller.controller import Controller
from tidelog.errors import ErrorCode
from tidelog.node.controller_pushes import PushOrder
from tidelog.partition.leader import Leader
from tidelog.ports import Create, StoreResult, Write
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

FULL, INCREMENTAL = 2, 1
OTHER_ID = b"topic-id-of-t-anew".ljust(16, b".")[:16]
LATER = 9_000_000
HIGHEST = 2**31 - 1
KINDS = (LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest)


def role(broker, number):
    """The code for the one partition that the LeaderAndIsr names, or for all of it."""
    answer = broker.answers[number]
    return answer.error_code or answer.topics[0].partition_errors[0].error_code


def tell(broker, *ids, kind=FULL, by=1, number=-1):
    """UpdateMetadata of topics t, with these ids."""
    state = UpdateMetadataPartitionState(partition_index=0, leader=0, isr=[0, 1, 2], replicas=[0, 1, 2])
    topics = [UpdateMetadataTopicState(topic_name=TOPIC, topic_id=id_, partition_states=[state]) for id_ in ids]
    request = UpdateMetadataRequest(
        controller_id=1, type=kind, controller_epoch=by, topic_states=topics, push_number=number
    )
    return broker.ask(request, CONTROLLER).error_code


def leading(topic_id=TOPIC_ID):
    broker = OneBroker(min_insync_replicas=1)
    tell(broker, topic_id)
    broker.lead(isr=(0,), topic_id=topic_id, number=LATER)
    broker.produce("m1")
    assert broker.partition().log.log_end_offset == 1
    return broker


def still_leads(broker):
    partition = broker.partition()
    return partition is not None and isinstance(partition.role, Leader) and partition.log.log_end_offset == 1


def test_a_late_deletion_is_refused():
    broker = leading()
    assert broker.delete(number=LATER - 1).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert still_leads(broker)


def test_a_deletion_of_another_topic_of_that_name_deletes_nothing():
    broker = leading()
    answer = broker.delete(topic_id=OTHER_ID, number=LATER + 1)
    assert [error.error_code for error in answer.partition_errors] == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert still_leads(broker)


def test_a_late_role_is_refused():
    broker = leading()
    number = broker.follow(epoch=5, topic_id=OTHER_ID, number=LATER - 1)
    assert role(broker, number) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert still_leads(broker)


def test_a_role_in_another_topic_of_that_name_waits_until_the_broker_hears_that_this_one_is_gone():
    broker = leading()
    number = broker.follow(topic_id=OTHER_ID, number=LATER + 1)
    assert role(broker, number) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert still_leads(broker)
    assert tell(broker, OTHER_ID, number=LATER + 2) == 0
    assert role(broker, broker.follow(topic_id=OTHER_ID, number=LATER + 3)) == 0
    assert broker.partition().log.topic_id == OTHER_ID


@pytest.mark.parametrize("kind", [FULL, INCREMENTAL], ids=["all", "a part"])
def test_late_metadata_are_refused(kind):
    broker = leading()
    assert tell(broker, kind=kind, number=LATER - 1) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert TOPIC in broker.node.broker.image.topics
    assert tell(broker, kind=FULL, number=LATER + 1) == 0
    assert TOPIC not in broker.node.broker.image.topics


def test_the_same_push_is_not_taken_twice():
    broker = leading()
    assert tell(broker, number=LATER) == ErrorCode.STALE_CONTROLLER_EPOCH


def test_a_push_to_another_life_of_the_broker_counts_for_nothing():
    broker = leading()
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, broker_epoch=77, push_number=LATER + 9)
    assert broker.ask(request, CONTROLLER).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert tell(broker, number=LATER + 1) == 0


def test_the_next_controller_counts_from_the_beginning():
    broker = leading()
    assert tell(broker, TOPIC_ID, by=2, number=1) == 0
    assert tell(broker, by=1, number=LATER + 1) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert TOPIC in broker.node.broker.image.topics


def test_the_refusal_does_no_harm_to_the_connection():
    broker = leading()
    tell(broker, number=LATER - 1)
    assert not broker.closed
    assert tell(broker, number=LATER + 1) == 0


def elect(broker, epoch):
    """The store confirms this controller's epoch."""
    data = tree.format_controller_epoch(epoch)
    if broker.session.apply([Write(tree.CONTROLLER_EPOCH, data)]).outcome != "ok":
        assert broker.session.apply([Create(tree.CONTROLLER_EPOCH, data)]).outcome == "ok"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_controller_that_the_store_does_not_know_is_not_obeyed_and_disables_nothing(kind):
    broker = leading()
    broker.elects = False
    elect(broker, 1)
    request = kind(controller_id=7, controller_epoch=HIGHEST, push_number=HIGHEST)
    assert broker.ask(request, CONTROLLER).error_code == ErrorCode.UNKNOWN_CONTROLLER_ID
    assert broker.node.broker.image.controller_id == 1
    assert tell(broker, OTHER_ID, number=LATER + 1) == 0, "who was obeyed before still is"
    elect(broker, 2)
    assert broker.ask(request, CONTROLLER).error_code == ErrorCode.UNKNOWN_CONTROLLER_ID
    assert tell(broker, TOPIC_ID, by=2) == 0, "and so is the next"
    assert still_leads(broker)


def test_the_first_push_of_a_new_controller_is_refused_until_the_store_has_told_of_it():
    broker = leading()
    broker.elects = broker.store_answers = False
    elect(broker, 2)
    for _ in range(3):
        assert tell(broker, TOPIC_ID, by=2) == ErrorCode.UNKNOWN_CONTROLLER_ID
    assert len(broker.stores) == 1, "one question at a time"
    broker.store_answers = True
    broker.give("wake")
    assert tell(broker, TOPIC_ID, by=2) == 0


def test_a_store_that_does_not_know_is_asked_again():
    broker = leading()
    broker.elects = broker.store_answers = False
    elect(broker, 2)
    assert tell(broker, by=2) == ErrorCode.UNKNOWN_CONTROLLER_ID
    broker.give("store_result", broker.stores.popleft().token, StoreResult("unknown"))
    broker.store_answers = True
    assert tell(broker, by=2) == ErrorCode.UNKNOWN_CONTROLLER_ID
    assert tell(broker, by=2) == 0


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_before_the_first_controller_nobody_is_obeyed(kind):
    order = PushOrder(lambda *_: None, Controller(0, BrokerConfig({}), entropy=bytes))
    assert order.accept(kind(controller_epoch=0)) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert order.accept(kind(controller_epoch=1)) == ErrorCode.UNKNOWN_CONTROLLER_ID


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_controller_is_not_obeyed_any_more_once_the_store_has_told_of_the_next(kind):
    """Also where nothing of the next one has come yet."""
    broker = leading()
    broker.elects = False
    broker.node.broker.controller.known_epoch = 2
    request = kind(controller_id=1, controller_epoch=1, push_number=LATER + 1)
    assert broker.ask(request, CONTROLLER).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    broker.node.broker.controller.known_epoch = -1
    assert broker.ask(request, CONTROLLER).error_code == ErrorCode.STALE_CONTROLLER_EPOCH, (
        "nor when it lost its session"
    )
    assert still_leads(broker)
