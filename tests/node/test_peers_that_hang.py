"""Brokers that do not answer: nobody waits for them longer than he must."""

import pytest

from tests.node.one_broker import CLIENT, TOPIC, OneBroker
from tidelog.errors import ErrorCode
from tidelog.wire import codec
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.records.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

CREATE_TOPICS, VERSION = 19, 7


def registered(**options):
    """A broker with a session of its own, whose controller is broker 1."""
    broker = OneBroker(**options)
    broker.give("session_started", broker.session.session)
    led_by(broker, 1)
    broker.live(0, 1, 2)
    return broker


def led_by(broker, controller):
    broker.give("store_silent")  # it does not lead itself
    broker.node.broker.controller.leader_id = controller
    broker.give("wake")


def dial(broker):
    """The connection that the node opened last stands."""
    broker.give("connected", broker.dialled, "", "peer", "")
    return broker.dialled


def answer(broker, connection, response, key, version):
    correlation_id = next(
        header.correlation_id for number, (header, _) in reversed(broker.asked) if number == connection
    )
    frame = b"".join(codec.encode_response(key, version, correlation_id, response))[4:]
    broker.give("receive", connection, [memoryview(frame)])


def asked(broker, kind):
    return [(connection, request) for connection, (_, request) in broker.asked if isinstance(request, kind)]


def test_a_request_that_was_forwarded_to_a_controller_that_hangs_goes_to_the_next_one():
    broker = registered()
    wish = CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1)], timeout_ms=5_000)
    number = broker.send(wish, CLIENT, VERSION)
    first = dial(broker)
    assert asked(broker, CreateTopicsRequest)[-1][0] == first
    led_by(broker, 2)
    broker.passes(100)
    second = dial(broker)
    assert asked(broker, CreateTopicsRequest)[-1][0] == second != first
    answer(broker, second, CreateTopicsResponse(), CREATE_TOPICS, VERSION)
    assert number in broker.answers


def test_a_change_of_the_isr_that_a_hanging_controller_was_asked_for_goes_to_the_next_one():
    broker = registered()
    broker.lead(isr=(0, 1))
    broker.fetch_as(2, 0)
    first = dial(broker)
    assert asked(broker, AlterPartitionRequest)[-1][0] == first
    led_by(broker, 2)
    broker.passes(200)
    second = dial(broker)
    assert asked(broker, AlterPartitionRequest)[-1][0] == second != first


def test_a_leader_that_is_gone_does_not_hold_up_the_fetch_from_its_next_life():
    """Its machine lost power: no reset comes, and a fetch from it would wait for its whole timeout."""
    broker = registered()
    broker.follow(leader=1)
    first = dial(broker)
    assert asked(broker, FetchRequest)[-1][0] == first
    broker.live(0, 2)
    broker.live(0, 1, 2)
    broker.passes(200)
    second = dial(broker)
    assert asked(broker, FetchRequest)[-1][0] == second != first


@pytest.mark.parametrize(("options", "timeout_ms"), [({}, 30_000), ({"request_timeout_ms": 2_000}, 2_000)])
def test_a_leader_that_never_answers_is_asked_anew_after_the_timeout(options, timeout_ms):
    broker = registered(**options)
    broker.follow(leader=1)
    first = dial(broker)
    broker.passes(timeout_ms - 1)
    assert first not in broker.closed
    broker.passes(1)
    assert first in broker.closed
    broker.passes(200)
    assert asked(broker, FetchRequest)[-1][0] == first
    second = dial(broker)
    assert asked(broker, FetchRequest)[-1][0] == second != first


@pytest.mark.parametrize(
    "garbage", [bytes(3), bytes.fromhex("00000001") + b"\xff" * 9, bytes.fromhex("7fffffff") + bytes(30)]
)
def test_a_leader_whose_answer_makes_no_sense_is_asked_anew(garbage):
    """What was asked then is among what has no answer: nobody may wait for it for ever."""
    broker = registered()
    broker.follow(leader=1)
    first = dial(broker)
    broker.give("receive", first, [memoryview(garbage)])
    assert first in broker.closed
    broker.passes(200)
    second = dial(broker)
    assert asked(broker, FetchRequest)[-1][0] == second != first


def test_after_an_error_the_follower_ends_its_old_session_with_the_request_that_opens_the_next():
    broker = registered()
    broker.follow(leader=1)
    connection = dial(broker)
    answer(broker, connection, FetchResponse(session_id=77), 1, 17)
    assert (asked(broker, FetchRequest)[-1][1].session_id, asked(broker, FetchRequest)[-1][1].session_epoch) == (77, 1)
    broker.give("disconnected", connection)
    broker.passes(200)
    dial(broker)
    request = asked(broker, FetchRequest)[-1][1]
    assert (request.session_id, request.session_epoch) == (77, 0)
    assert request.topics[0].partitions[0].partition == 0


@pytest.mark.parametrize("by", [1, 2])
def test_roles_that_waited_for_a_config_are_not_taken_where_a_newer_push_was_taken_meanwhile(by):
    broker = OneBroker()
    broker.store_answers = False
    number = broker.lead(by=1)
    assert number not in broker.answers
    broker.connect(CLIENT + 1, "REPLICATION")
    assert broker.delete(by=by, connection=CLIENT + 1).error_code == 0
    broker.store_answers = True
    broker.give("wake")
    assert broker.answers[number].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.partition() is None


def test_deleting_records_waits_for_live_replicas_only():
    broker = OneBroker()
    broker.lead()
    broker.produce("m1", connection=CLIENT)
    broker.fetch_as(1, 1)
    broker.fetch_as(2, 1)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
    number = broker.send(DeleteRecordsRequest(topics=[topic], timeout_ms=60_000))
    broker.fetch_as(1, 1, log_start=1)
    assert number not in broker.answers
    broker.live(0, 1)
    result = broker.answers[number].topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (0, 1)


def test_a_follower_ends_its_session_with_a_leader_that_leads_nothing_of_it_any_more():
    broker = registered()
    broker.follow(leader=1)
    connection = dial(broker)
    answer(broker, connection, FetchResponse(session_id=77), 1, 17)
    broker.follow(leader=2, epoch=1)
    answer(broker, connection, FetchResponse(session_id=77), 1, 17)
    dial(broker)
    _, end = asked(broker, FetchRequest)[-1]
    assert (end.session_id, end.session_epoch, end.topics) == (77, -1, [])
