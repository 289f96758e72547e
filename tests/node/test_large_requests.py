"""Requests with many entries: served in parts, with other connections in between, and answered as if they were not."""

import pytest

from tests.node import largest
from tests.node.one_broker import CLIENT, TOPIC_ID, OneBroker
from tidelog.api import matching, parts
from tidelog.api.records import sessions
from tidelog.api.registry import APIS
from tidelog.api.topics import metadata
from tidelog.errors import ErrorCode
from tidelog.node import connections, dispatch, large_requests
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.groups.classic_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.messages.topics.metadata import MetadataRequest
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.transactions.transaction_admin import ListTransactionsRequest
from tidelog.wire.messages.transactions.transaction_requests import InitProducerIdRequest

OTHER = 3
CLIENTS = [key for key, api in sorted(APIS.items()) if api.caller != "broker"]
FIND_COORDINATOR = 10
VERSION = APIS[FIND_COORDINATOR].high
MANY = 5_000


def keys(count, name="k{}"):
    return FindCoordinatorRequest(coordinator_keys=[name.format(number) for number in range(count)])


def frame(request, number=1, version=VERSION):
    return memoryview(bytearray(b"".join(codec.encode_request(request.__key__, version, number, "test", request))[4:]))


def inputs_until_answered(broker, number):
    """How often the broker had to be woken, with another connection served in between."""
    broker.connect(OTHER)
    for count in range(10_000):
        if number in broker.answers:
            return count
        assert broker.ask(keys(1), OTHER, VERSION).coordinators[0].error_code == 0
        assert broker.node.next_deadline == broker.now.mono, "it goes on in the next turn"
        broker.give("wake")
    raise AssertionError("never answered")


@pytest.mark.parametrize("key", CLIENTS, ids=lambda key: SCHEMAS[key].name)
def test_a_request_that_is_served_in_parts_is_answered_as_in_one(key, monkeypatch):
    version = APIS[key].high
    for path in largest.arrays(key, version):
        answers = []
        for at_once in (1000, 20):
            monkeypatch.setattr(parts, "_AT_ONCE", at_once)
            monkeypatch.setattr(parts, "_AT_ONCE_OF", {})
            broker = largest.led()
            number = broker.send(largest.request(key, version, path, 70, distinct=True), version=version)
            broker.passes(100)
            answers.append((broker.answers.get(number), set(broker.closed)))
        assert answers[0] == answers[1], path


def test_others_are_served_between_the_parts(monkeypatch):
    broker = largest.led()
    sizes = []

    def serve(*given):
        sizes.append(len(given[2].coordinator_keys))
        return plain(*given)

    plain = dispatch.Dispatch._call
    monkeypatch.setattr(dispatch.Dispatch, "_call", serve)
    number = broker.send(keys(MANY), version=VERSION)
    turns = inputs_until_answered(broker, number)
    of_parts = [size for size in sizes if size > 1]
    assert sum(of_parts) == MANY
    assert max(of_parts) == parts.at_once(FIND_COORDINATOR)
    assert turns > len(of_parts) // large_requests.STEPS_A_TURN
    assert [each.key for each in broker.answers[number].coordinators] == keys(MANY).coordinator_keys


def test_a_turn_ends_when_its_time_is_over():
    """The stopwatch says that each step takes longer than a slice."""
    quick, slow = largest.led(), largest.led()
    slow.work_ns = large_requests.SLICE_NS
    turns = [inputs_until_answered(each, each.send(keys(MANY), version=VERSION)) for each in (quick, slow)]
    assert turns[1] > 5 * turns[0]


def test_the_next_requests_of_the_connection_wait_and_are_answered_in_order():
    broker = largest.led()
    first, second = keys(MANY), keys(1)
    numbers = [broker.expects(each, VERSION) for each in (first, second)]
    frames = [frame(each, number) for each, number in zip((first, second), numbers, strict=True)]
    broker.give("receive", CLIENT, frames)
    assert broker.paused[CLIENT]
    assert broker.retained[CLIENT] == len(frames[0])
    inputs_until_answered(broker, numbers[0])
    assert not broker.paused[CLIENT]
    assert not broker.retained[CLIENT]
    assert [each for each in broker.answers if each in numbers] == numbers
    assert len(broker.answers[numbers[1]].coordinators) == 1


def test_an_entry_that_is_repeated_counts_twice():
    broker = largest.led()
    number = broker.send(keys(MANY, "same"), version=VERSION)
    inputs_until_answered(broker, number)
    assert [each.key for each in broker.answers[number].coordinators] == ["same"] * 2


def test_what_is_refused_for_being_repeated_is_so_in_parts():
    broker = largest.led()
    twice = [*range(600), 599, 5]
    topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=each) for each in twice])
    number = broker.send(ListOffsetsRequest(topics=[topic]), version=APIS[2].high)
    inputs_until_answered(broker, number)
    (answer,) = broker.answers[number].topics
    refused = [each.partition_index for each in answer.partitions if each.error_code == ErrorCode.INVALID_REQUEST]
    assert sorted(refused) == [5, 599]
    assert sorted(each.partition_index for each in answer.partitions) == list(range(600))


@pytest.mark.parametrize(
    "request_",
    [
        keys(parts.MOST_ENTRIES + 1, "k"),
        JoinGroupRequest(protocols=[JoinGroupRequestProtocol()] * (parts.MOST_WHOLE + 1)),
        DescribeConfigsRequest(resources=[DescribeConfigsResource(configuration_keys=["k"] * (parts.MOST_WHOLE + 1))]),
    ],
    ids=["in all", "of a list that cannot be split", "within an entry"],
)
def test_too_many_entries_close_the_connection(request_):
    broker = OneBroker()
    broker.send(request_, version=APIS[request_.__key__].high)
    broker.passes(0)
    assert broker.closed == [CLIENT]
    assert "entries" in next(each for each in broker.events if each.kind == "connection.refused").fields["reason"]


def test_a_large_frame_without_records_closes_the_connection():
    broker = OneBroker()
    start = bytes(frame(keys(1)))
    broker.give("receive", CLIENT, [memoryview(start + bytes(dispatch.LARGEST_BYTES))])
    assert broker.closed == [CLIENT]


def test_the_frames_of_large_requests_that_wait_are_limited(monkeypatch):
    monkeypatch.setattr(large_requests, "MOST_WAITING_BYTES", 6_000)
    broker = OneBroker()
    for connection in (20, 21, 22):
        broker.connect(connection)
        broker.send(keys(1000), connection, VERSION)
    assert broker.closed == [21, 22], "5 KB and more each"
    broker.passes(0)
    broker.connect(23)
    broker.passes(0)
    broker.send(keys(1000), 23, VERSION)
    assert 23 not in broker.closed, "there is room again"


def test_a_connection_that_is_closed_ends_its_large_request():
    broker = largest.led()
    broker.send(keys(MANY), version=VERSION)
    broker.give("wake")
    broker.give("disconnected", CLIENT)
    broker.give("wake")
    assert broker.node.dispatch.large.alarm.at > broker.now.mono


def test_a_turn_serves_as_many_requests_of_a_connection_as_fit_into_it():
    """25 requests that are each just small enough to be served at once."""
    broker = largest.led()
    size = parts.at_once(FIND_COORDINATOR) // 2
    numbers = [broker.expects(keys(size), VERSION) for _ in range(25)]
    broker.give("receive", CLIENT, [frame(keys(size), number) for number in numbers])
    assert [each for each in numbers if each not in broker.answers] == []
    assert broker.delivered_again == 12, "two in each turn"


def test_answers_that_wait_for_one_before_them_are_limited_by_their_bytes(monkeypatch):
    """The first request waits for records; no more is served once enough answers wait behind it."""
    monkeypatch.setattr(connections, "PAUSE_ABOVE_BYTES", 100_000)
    broker = largest.led()
    wanted = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition()])
    fetch = FetchRequest(max_wait_ms=500, min_bytes=1, topics=[wanted])
    first = broker.send(fetch, version=APIS[1].high)
    for _ in range(40):
        broker.send(keys(400), version=VERSION)
    assert 10 < len(broker.put_back[CLIENT]) < 39, "what came after the limit was reached"
    assert broker.paused[CLIENT]
    broker.passes(500)
    assert first in broker.answers
    assert not broker.paused[CLIENT]


def test_a_fetch_of_many_partitions_pauses_and_its_session_can_be_used():
    broker = largest.led()
    partitions = [FetchPartition(partition=index, partition_max_bytes=1000) for index in range(2000)]
    wanted = FetchTopic(topic_id=TOPIC_ID, partitions=partitions)
    first = broker.send(FetchRequest(session_epoch=0, max_bytes=1000, topics=[wanted]), version=APIS[1].high)
    assert inputs_until_answered(broker, first) >= 1
    session = broker.answers[first].session_id
    assert len(broker.answers[first].responses[0].partitions) == 2000
    unknown = [each.partition_index for each in broker.answers[first].responses[0].partitions if each.error_code]
    assert unknown == list(range(1, 2000))
    again = broker.send(FetchRequest(session_id=session, session_epoch=1, max_bytes=1000), version=APIS[1].high)
    inputs_until_answered(broker, again)
    assert len(broker.answers[again].responses[0].partitions) == 1999, "what is missing is reported again"
    closing = broker.send(FetchRequest(session_id=session, session_epoch=-1, max_bytes=1000), version=APIS[1].high)
    inputs_until_answered(broker, closing)
    assert len(broker.node.broker.sessions) == 0


def test_options_are_described_once_for_all_topics_without_values_of_their_own():
    broker = largest.led()
    names = ["t", "__consumer_offsets", "t"]
    broker.configure("topics/__consumer_offsets", retention_ms=77)
    resources = [DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
    first, other, again = broker.ask(DescribeConfigsRequest(resources=resources), version=APIS[32].high).results
    assert first == again
    values = [{each.name: each.value for each in result.configs} for result in (first, other)]
    assert [each["retention.ms"] for each in values] == ["604800000", "77"]


def test_a_pattern_is_matched_against_the_topics_with_pauses(monkeypatch):
    monkeypatch.setattr(matching, "INSTRUCTIONS_AT_ONCE", 20)
    broker = largest.led()
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_regex="t|t-(?:.*x)*",
        topic_partitions=[],
    )
    number = broker.send(heartbeat, version=APIS[68].high)
    assert inputs_until_answered(broker, number) >= 1
    (assigned,) = broker.answers[number].assignment.topic_partitions
    assert assigned.topic_id == TOPIC_ID


def test_sessions_of_consumers_hold_a_limited_number_of_partitions(monkeypatch):
    monkeypatch.setattr(sessions, "MOST_PARTITIONS", 1000)
    broker = largest.led()
    partitions = [FetchPartition(partition=index) for index in range(600)]
    opening = FetchRequest(session_epoch=0, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=partitions)])
    numbers = [broker.send(opening, version=APIS[1].high) for _ in range(2)]
    broker.passes(0)
    first, second = (broker.answers[number] for number in numbers)
    assert first.session_id
    assert not second.session_id
    assert len(second.responses[0].partitions) == 600
    more = FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=index) for index in range(600, 1200)])
    number = broker.send(
        FetchRequest(session_id=first.session_id, session_epoch=1, topics=[more]), version=APIS[1].high
    )
    broker.passes(0)
    assert broker.answers[number].error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_answer_with_all_topics_of_a_large_cluster_is_made_with_pauses(monkeypatch):
    monkeypatch.setattr(metadata, "SLICE", 20)
    broker = OneBroker()
    partition = UpdateMetadataPartitionState(leader=0, isr=[0], replicas=[0])
    topics = [
        UpdateMetadataTopicState(topic_name=f"t{number}", topic_id=bytes([number]) * 16, partition_states=[partition])
        for number in range(1, 100)
    ]
    broker.live(0, topic_states=topics)
    number = broker.send(MetadataRequest(topics=None), version=12)
    assert number not in broker.answers
    broker.passes(0)
    assert [each.name for each in broker.answers[number].topics] == [each.topic_name for each in topics]


def test_a_pattern_is_matched_against_the_transactions_with_pauses(monkeypatch):
    monkeypatch.setattr(matching, "INSTRUCTIONS_AT_ONCE", 20)
    broker = largest.led()
    for name in ("a1", "b1", "a2"):
        broker.send(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000), version=APIS[22].high)
    broker.passes(0)
    number = broker.send(ListTransactionsRequest(transactional_id_pattern="a(?:.*x)*[0-9]"), version=APIS[66].high)
    assert number not in broker.answers
    broker.passes(0)
    assert sorted(each.transactional_id for each in broker.answers[number].transaction_states) == ["a1", "a2"]


def test_topics_that_are_too_many_for_one_request_are_refused_in_all_parts():
    broker = largest.led()
    topics = [CreatableTopic(name=f"t{number}", num_partitions=20, replication_factor=1) for number in range(600)]
    number = broker.send(CreateTopicsRequest(topics=topics), version=APIS[19].high)
    inputs_until_answered(broker, number)
    answers = broker.answers[number].topics
    assert [(each.name, each.error_code) for each in answers] == [
        (each.name, ErrorCode.POLICY_VIOLATION) for each in topics
    ]
    assert not broker.asked


def test_only_brokers_are_exempt_on_a_listener_that_clients_share_with_them():
    """A client is served in parts there, too; a broker at once."""
    turns = {}
    for name in ("an app", "broker-1"):
        broker = largest.led()
        broker.connect(20, "REPLICATION")
        broker._client_ids[20] = name
        number = broker.send(keys(MANY), 20, VERSION)
        turns[name] = 0 if number in broker.answers else inputs_until_answered(broker, number)
    assert turns["broker-1"] == 0
    assert turns["an app"] > 1
