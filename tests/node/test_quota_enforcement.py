"""Quotas on a real broker: who exceeds one is throttled and muted for as long; nobody else is."""

import pytest

from tests.node.one_broker import CLIENT, CONTROLLER, TOPIC, OneBroker
from tidelog.errors import ErrorCode
from tidelog.node.client_throttling import user_of
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

OTHER = 3
TEN_KB = "x" * 10_000


@pytest.fixture
def broker():
    broker = OneBroker()
    broker.lead(isr=(0,), replicas=(0,))
    broker.connect(OTHER)
    return broker


def limit(broker, entity=None, **quotas):
    broker.node.broker.quotas.change({"client-id": "test"} if entity is None else entity, quotas)


def fetch(broker, connection=CLIENT, **more):
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(topics=[FetchTopic(topic=TOPIC, partitions=[wanted])], min_bytes=1, **more)
    return broker.ask(asked, connection, version=12)


def list_offsets():
    topic = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


def test_without_a_quota_nothing_is_counted(broker):
    broker.produce(TEN_KB)
    assert not broker.node.broker.quotas.are_set
    assert broker.paused == {}


def test_who_produces_too_fast_learns_it_and_is_muted_for_as_long(broker):
    limit(broker, producer_byte_rate=1000.0)
    answer = broker.answers[broker.produce(TEN_KB)]
    throttle_ms = answer.throttle_time_ms
    assert 0 < throttle_ms < 1000  # ten windows' worth may come at once, and there is a header
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert broker.paused == {CLIENT: True}
    broker.passes(throttle_ms - 1)
    assert broker.paused == {CLIENT: True}
    broker.passes(1)
    assert broker.paused == {CLIENT: False}
    assert broker.answers[broker.produce("m", connection=OTHER)].throttle_time_ms > 0


def test_a_produce_without_an_answer_is_counted_too(broker):
    limit(broker, producer_byte_rate=100.0)
    broker.produce(TEN_KB, acks=0)
    assert broker.paused == {CLIENT: True}


def test_a_produce_that_waits_for_replicas_is_charged_when_it_is_answered():
    broker = OneBroker()
    broker.lead(isr=(0, 1), replicas=(0, 1))
    limit(broker, producer_byte_rate=100.0)
    number = broker.produce(TEN_KB)
    assert (broker.produced(number), broker.paused) == (None, {})
    broker.fetch_as(1, 0)
    broker.fetch_as(1, 1)
    assert broker.answers[number].throttle_time_ms > 0
    assert broker.paused == {CLIENT: True}


def test_who_fetches_too_fast_learns_it_and_one_answer_is_bounded(broker):
    for _ in range(4):
        broker.produce(TEN_KB)
    limit(broker, consumer_byte_rate=1000.0)
    answer = fetch(broker, max_bytes=1 << 20)
    records = answer.responses[0].partitions[0].records
    assert 0 < len(bytes(records)) < 2 * 10_500
    assert fetch(broker, OTHER, max_bytes=1 << 20).throttle_time_ms > 0
    assert broker.paused[OTHER]


def test_work_is_counted_in_percent_of_the_time(broker):
    limit(broker, request_percentage=1.0)
    broker.work_ns = 200_000_000
    first = broker.ask(list_offsets())
    assert 0 < first.throttle_time_ms <= 1000  # never more than a window


def test_other_brokers_have_no_quotas(broker):
    limit(broker, {"user": None}, request_percentage=0.001, consumer_byte_rate=1.0)
    broker.work_ns = 10**9
    broker.fetch_as(1, 0)
    broker.live(0, 1)
    assert not any(broker.paused.values())
    assert CONTROLLER not in broker.paused


def test_a_muted_connection_that_goes_is_forgotten(broker):
    limit(broker, producer_byte_rate=1.0)
    broker.produce(TEN_KB)
    broker.give("disconnected", CLIENT)
    assert broker.node.dispatch.muting.next_deadline is None


def test_users_are_named_without_their_type():
    assert (user_of("User:alice"), user_of("alice"), user_of("User:")) == ("alice", "alice", "User:")


@pytest.fixture
def handed(broker, monkeypatch):
    """The requests that reached the controller; they are never answered."""
    requests = []
    monkeypatch.setattr(type(broker.node.broker.controller), "leading", property(lambda self: True))
    monkeypatch.setattr(
        type(broker.node.broker.controller), "handle", lambda self, token, request, now: requests.append(request) or []
    )
    return requests


def wishes(*topics):
    return [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics]


def test_mutations_beyond_the_quota_are_refused_by_newer_versions(broker, handed):
    limit(broker, controller_mutation_rate=1.0)
    broker.send(CreateTopicsRequest(topics=wishes(("a", 20)), timeout_ms=1000), version=7)
    assert [topic.name for topic in handed[0].topics] == ["a"]
    answer = broker.ask(CreateTopicsRequest(topics=wishes(("b", 1), ("c", 1)), timeout_ms=1000), OTHER, version=7)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
    assert answer.throttle_time_ms == 9000
    assert broker.paused[OTHER]
    assert len(handed) == 1


def test_what_is_within_the_quota_is_done_and_the_rest_refused(broker, handed):
    limit(broker, controller_mutation_rate=1.0)
    broker.send(CreateTopicsRequest(topics=wishes(("a", 20), ("b", 1)), timeout_ms=1000), version=7)
    assert [topic.name for topic in handed[0].topics] == ["a"]


def test_older_versions_are_made_to_wait(broker, handed):
    limit(broker, controller_mutation_rate=1.0)
    broker.send(CreateTopicsRequest(topics=wishes(("a", 20), ("b", 1)), timeout_ms=1000), version=5)
    assert [topic.name for topic in handed[0].topics] == ["a", "b"]


def test_what_is_only_looked_at_costs_nothing(broker, handed):
    limit(broker, controller_mutation_rate=1.0)
    for _ in range(3):
        broker.connect(9)
        broker.send(CreateTopicsRequest(topics=wishes(("a", 20)), timeout_ms=1000, validate_only=True), 9, version=7)
    assert len(handed) == 3


def test_growing_and_deleting_cost_what_is_there(broker, handed):
    limit(broker, controller_mutation_rate=1.0)
    grow = CreatePartitionsTopic(name="nowhere", count=1000, assignments=None)
    broker.send(CreatePartitionsRequest(topics=[grow], timeout_ms=1000), version=3)
    broker.connect(9)
    broker.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="nowhere")], timeout_ms=1000), 9, version=6)
    assert len(handed) == 2
