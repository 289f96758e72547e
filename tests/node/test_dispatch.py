"""Requests that go wrong, and connections that go: nobody else notices, and nothing is kept for them."""

import pytest

from tests.node.one_broker import CLIENT, CONTROLLER, TOPIC, OneBroker
from tidelog.api import registry
from tidelog.effects import Deferred, Signal
from tidelog.errors import ErrorCode
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
OTHER = 3


def list_offsets(timestamp=-1):
    topic = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def fetch(offset=0, **more):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[wanted])], min_bytes=1, **more)


@pytest.fixture
def broken(monkeypatch):
    """ListOffsets has a bug."""

    def use(handle):
        found = registry.handler
        monkeypatch.setattr(
            "tidelog.node.dispatch.registry.handler",
            lambda api: handle if api is registry.APIS[LIST_OFFSETS] else found(api),
        )
        return OneBroker()

    return use


def check_only_the_client_was_closed(broker):
    assert broker.closed == [CLIENT]
    (event,) = [event for event in broker.events if event.kind == "request.failed"]
    assert event.level == "error"
    assert event.fields["api"] == "ListOffsets"
    assert "no such thing" in event.fields["error"]
    broker.connect(OTHER)
    broker.lead(isr=(0,), replicas=(0,))
    assert broker.produced(broker.produce("m1", connection=OTHER)) == (0, 0)


def test_a_bug_in_a_handler_closes_the_connection_and_the_broker_goes_on(broken):
    def handle(request, context):
        raise KeyError("no such thing")

    broker = broken(handle)
    broker.send(list_offsets())
    check_only_the_client_was_closed(broker)


def test_a_bug_when_a_request_goes_on_closes_the_connection_and_the_broker_goes_on(broken):
    def resume(context):
        raise KeyError("no such thing")

    broker = broken(lambda request, context: Deferred((Signal(("never",)),), context.now.mono + 100, resume))
    broker.send(list_offsets())
    broker.passes(100)
    check_only_the_client_was_closed(broker)


def test_an_answer_that_cannot_be_encoded_closes_the_connection_and_the_broker_goes_on(broken):
    broker = broken(lambda request, context: "no such thing")
    broker.send(list_offsets())
    assert broker.closed == [CLIENT]
    assert [event.kind for event in broker.events].count("request.failed") == 1


def test_a_failed_assertion_stops_the_process(broken):
    def handle(request, context):
        raise AssertionError("an invariant does not hold")

    broker = broken(handle)
    with pytest.raises(AssertionError, match="an invariant"):
        broker.send(list_offsets())


def test_the_answers_before_a_fault_are_sent_before_the_connection_closes():
    broker = OneBroker()
    broker.lead()
    number = broker.send(list_offsets())
    broker.produce("m1", acks=0, index=7)
    assert number in broker.answers
    assert broker.closed == [CLIENT]


def test_what_a_closed_connection_waited_for_is_forgotten():
    broker = OneBroker()
    broker.lead()
    for number in range(20, 40):
        broker.connect(number)
        broker.send(fetch(max_wait_ms=2**31 - 1), number, version=12)
        broker.produce("m", connection=number)
        broker.give("disconnected", number)
    assert "0 requests open" in repr(broker.node.dispatch)
    broker.fetch_as(1, 20)
    broker.fetch_as(2, 20)
    assert broker.partition().high_watermark == 20


def test_a_connection_that_is_closed_by_the_broker_is_forgotten_at_once():
    broker = OneBroker()
    broker.lead()
    number = broker.produce("m1")
    broker.produce("m2", acks=0, index=7)
    assert broker.closed == [CLIENT]
    assert "0 requests open" in repr(broker.node.dispatch)
    broker.fetch_as(1, 1)
    broker.fetch_as(2, 1)
    assert number not in broker.answers


def test_reading_pauses_while_too_much_waits_and_goes_on_when_it_is_answered():
    broker = OneBroker()
    broker.lead()
    numbers = [broker.produce("m") for _ in range(501)]
    assert broker.paused == {CLIENT: True}
    broker.fetch_as(1, 501)
    broker.fetch_as(2, 501)
    assert broker.paused == {CLIENT: False}
    assert [broker.produced(number) for number in numbers] == [(ErrorCode.NONE, offset) for offset in range(501)]


def test_an_unknown_api_closes_the_connection_only():
    broker = OneBroker()
    broker.give("receive", CLIENT, [memoryview(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff")])
    assert broker.closed == [CLIENT]
    assert broker.ask(list_offsets(), CONTROLLER).topics[0].partitions[0].error_code == 3
