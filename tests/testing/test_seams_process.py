"""Faults at the seams of a broker, without a network client: wrong calls, answers in order, disks, clocks, histories."""

import time
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tests.node.one_broker import values
from tidelog.errors import ApiError, DiskFull, ErrorCode
from tidelog.shell.transport import Admin, Producer
from tidelog.testing import Cluster, History
from tidelog.testing import ErrorCode as Exported
from tidelog.testing.answers import Answers, Slot, split
from tidelog.testing.clocks import VirtualClock
from tidelog.testing.disks import DiskState, DisturbedDisk
from tidelog.testing.names import api_key, error_code
from tidelog.testing.request_faults import _has_code
from tidelog.wire.codec import RequestHeader
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture(scope="module")
def shared():
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("t")
        yield cluster


def send(cluster, *values, topic="t", **options):
    with Producer(cluster.bootstrap, linger_ms=0, **options) as producer:
        for value in values:
            producer.send(topic, value)
        return producer.flush(60)


WRONG = [
    (
        lambda c: c.delay("Prduce", 5),
        r"'Prduce' is not an API of Kafka's clients; did you mean 'Produce'\?\nexpected one of: Produce, ",
    ),
    (lambda c: c.delay("LeaderAndIsr", 5), r"'LeaderAndIsr' is not an API of Kafka's clients"),
    (lambda c: c.requests("produced"), r"did you mean 'Produce'\?"),
    (lambda c: c.delay("Produce", -1), r"ms: -1 is not valid; expected a number from 0 on"),
    (lambda c: c.drop("Produce", nth=0), r"nth: 0 is not valid; expected a number from 1 on"),
    (
        lambda c: c.fail("Produce", "NOT_LEADER"),
        r"'NOT_LEADER' is not an error code .* did you mean 'NOT_LEADER_OR_FOLLOWER'\?",
    ),
    (
        lambda c: c.fail("Produce", 12345),
        r"12345 is not an error code of Kafka's protocol\nexpected one of: UNKNOWN_SERVER_ERROR, ",
    ),
    (lambda c: c.fail("Produce", "UNKNOWN_SERVER_ERROR", times=0), r"times: 0 is not valid"),
    (lambda c: c.fail("Produce", "NOT_LEADER_OR_FOLLOWER", partition=0), r"partition: 0 needs a topic"),
    (lambda c: c.drop("Fetch", topic="t", partition=-1), r"partition: -1 is not valid; expected a number from 0 on"),
    (lambda c: c.delay("JoinGroup", 5, topic="t"), r"topic: requests of JoinGroup name no topics"),
    (lambda c: c.drop("CreateTopics", topic="t", partition=0), r"requests of CreateTopics name no partitions"),
    (lambda c: c.throttle(0), r"bytes_per_s: 0 is not valid; expected a number from 1 on"),
    (lambda c: c.partition(), r"groups: \(\) leaves nothing to separate; expected two groups of brokers"),
    (lambda c: c.partition({0}, {7}), r"broker 7 does not exist; expected 0"),
    (lambda c: c.partition({0}, {0}), r"broker 0 is in two groups; expected each broker in one"),
    (lambda c: c.cut_connections(3), r"broker 3 does not exist; expected 0"),
    (lambda c: c.full_disk(3), r"broker 3 does not exist; expected 0"),
    (lambda c: c.slow_disk(0, -5), r"ms: -5 is not valid"),
    (lambda c: c.lose_unflushed(3), r"broker 3 does not exist; expected 0"),
    (lambda c: c.advance_clock(), r"the time to advance, in ms: 0 is not valid; expected a number from 1 on"),
    (lambda c: c.elect("t", leader=4), r"broker 4 does not exist; expected 0"),
    (lambda c: c.elect("nothing", leader=0), r"topic 'nothing' does not exist"),
    (lambda c: c.shrink_isr("t", without=0), r"broker 0 does not follow t-0; expected one of \[\]"),
    (lambda c: c.records("t", 5), r"partition 5 of 't' does not exist; expected 0 to 0"),
]


@pytest.mark.parametrize(("call", "said"), WRONG)
def test_a_wrong_call_says_what_is_valid(cluster, call, said):
    with pytest.raises(ValueError, match=r"(?s)" + said):
        call(cluster)
    assert not cluster._faults


def test_every_api_that_can_carry_an_error_can_fail():
    assert api_key("produce") == 0
    assert error_code("not_coordinator") is error_code(16) is error_code(Exported.NOT_COORDINATOR)
    assert [key for key in (0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 18, 19, 22, 26, 68) if not _has_code(key)] == []


def test_requests_are_listed_with_their_content(cluster):
    send(cluster, b"1", client_id="mine")
    (request,) = cluster.requests("Produce", client_id="mine")
    assert (request.broker, request.api, request.body.acks) == (0, "Produce", -1)
    assert {each.api for each in cluster.requests()} >= {"ApiVersions", "Metadata", "Produce"}
    assert cluster.requests("Produce", client_id="other") == []
    cluster.create_topic("unseen")  # this package's own requests are not listed
    assert cluster.requests("CreateTopics") == []


def test_a_fault_strikes_what_it_names_and_ends_with_its_block(cluster):
    with cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=None, client_id="mine") as fault:
        assert send(cluster, b"1")[0].is_acknowledged
        assert not send(cluster, b"1", client_id="mine", delivery_timeout_ms=300, request_timeout_ms=200)[
            0
        ].is_acknowledged
        assert fault.struck >= 1
    assert not fault.is_active
    assert send(cluster, b"1", client_id="mine")[0].is_acknowledged
    second = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", nth=2)
    assert send(cluster, b"1")[0].is_acknowledged
    assert second.struck == 0
    assert send(cluster, b"1")[0].is_acknowledged
    assert second.struck == 1
    cluster.heal()
    assert not second.is_active


@pytest.fixture
def three(cluster):
    """A new topic with three partitions, and a client that sends single requests to the broker."""
    name = f"three-{uuid4().hex}"
    cluster.create_topic(name, partitions=3)
    with Admin(cluster.bootstrap) as admin:
        (topic,) = admin.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 0).topics
        yield SimpleNamespace(name=name, id=topic.topic_id, ask=lambda request: admin.ask(request, 0))


def write(topic, partitions=range(3), acks=-1):
    """Write a record to each partition by one request; the codes, by partition."""
    records = values("m")
    data = [PartitionProduceData(index=number, records=records) for number in partitions]
    written = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=data)
    answer = topic.ask(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=[written]))
    assert len(answer.responses) == 1
    return {each.index: each.error_code for each in answer.responses[0].partition_responses}


def fetch(topic, partitions=range(3), min_bytes=1, **session):
    """The answer to one fetch, and the code and the number of bytes of each partition in it."""
    wanted = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=10**6) for number in partitions]
    topics = [FetchTopic(topic=topic.name, topic_id=topic.id, partitions=wanted)] if wanted else []
    answer = topic.ask(FetchRequest(max_wait_ms=60_000, min_bytes=min_bytes, topics=topics, **session))
    found = [each for response in answer.responses for each in response.partitions]
    return answer, {each.partition_index: (each.error_code, len(each.records or b"")) for each in found}


def test_an_error_of_one_partition_leaves_the_others_of_the_request(cluster, three):
    fault = cluster.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic=three.name, partition=1, times=2)
    assert write(three, [0, 2]) == {0: 0, 2: 0}
    assert fault.struck == 0
    for _ in range(2):
        assert write(three) == {0: 0, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: 0}
    assert write(three, [1]) == {1: 0}
    assert fault.struck == 2
    assert [len(cluster.records(three.name, number)) for number in range(3)] == [3, 1, 3]
    cluster.fail("Produce", "KAFKA_STORAGE_ERROR", topic=three.name)
    assert set(write(three).values()) == {ErrorCode.KAFKA_STORAGE_ERROR}


def test_a_fetch_of_one_partition_fails_at_once_and_the_others_have_their_records(cluster, three):
    write(three)
    with cluster.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic=three.name, partition=1, times=None):
        began = time.monotonic()
        _, found = fetch(three, min_bytes=10**9)
        assert time.monotonic() - began < 30, "it does not wait for more records"
    assert (found.pop(1), {code for code, _ in found.values()}) == ((ErrorCode.OFFSET_OUT_OF_RANGE, 0), {0})
    assert all(size for _, size in found.values())


def test_a_fetch_session_does_not_hide_a_partition_that_fails(cluster, three):
    """A fetch in a session names only what has changed, so the client has to name all."""
    write(three)
    answer, _ = fetch(three, session_epoch=0)
    assert answer.session_id
    fault = cluster.fail("Fetch", "OFFSET_OUT_OF_RANGE", topic=three.name, partition=1)
    answer, _ = fetch(three, [], session_id=answer.session_id, session_epoch=1)
    assert (answer.error_code, fault.struck) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    answer, found = fetch(three, session_epoch=0)
    assert (answer.session_id, found[1], fault.struck) == (0, (ErrorCode.OFFSET_OUT_OF_RANGE, 0), 1)
    answer, found = fetch(three, session_epoch=0)
    assert answer.session_id, "there are sessions again"
    assert {code for code, _ in found.values()} == {0}
    cluster.delay("Fetch", 0, topic=three.name, partition=1, nth=2)
    answer, _ = fetch(three, session_epoch=0)
    assert answer.session_id == 0, "so that the next fetch names all"


def test_requests_that_name_a_partition_are_lost_or_wait(cluster, three):
    with cluster.delay("Produce", 200, topic=three.name, partition=1) as delay:
        write(three, [0, 2])
        assert delay.struck == 0
        began = time.monotonic()
        write(three)
        assert (delay.struck, time.monotonic() - began >= 0.2) == (1, True)
    seen = []
    with cluster.control("Produce", seen.append, topic=three.name, partition=1):
        write(three, [0])
        write(three, [1])
    assert [each.body.topic_data[0].partition_data[0].index for each in seen] == [1]
    with (
        cluster.drop("Produce", topic=three.name, partition=1) as lost,
        Admin(cluster.bootstrap, request_timeout_ms=300, default_api_timeout_ms=600) as admin,
    ):
        hasty = SimpleNamespace(name=three.name, id=three.id, ask=lambda request: admin.ask(request, 0, retries=False))
        assert write(hasty, [0]) == {0: 0}
        with pytest.raises(ApiError, match="did not answer"):
            write(hasty, [1])
        assert lost.struck == 1


def test_a_partition_without_a_leader_in_metadata(cluster, three):
    with cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", topic=three.name, partition=1, times=None):
        (topic,) = three.ask(MetadataRequest(topics=[MetadataRequestTopic(name=three.name)])).topics
    found = {each.partition_index: (each.error_code, each.leader_id) for each in topic.partitions}
    assert found == {0: (0, 0), 1: (ErrorCode.LEADER_NOT_AVAILABLE, -1), 2: (0, 0)}


def test_a_metadata_error_leaves_the_brokers(cluster):
    fault = cluster.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2)
    assert send(cluster, b"1")[0].is_acknowledged
    assert fault.struck == 2


def test_a_controlled_request_is_answered_by_the_test(cluster):
    seen = []
    with cluster.control("Produce", seen.append):
        assert send(cluster, b"1")[0].is_acknowledged
    assert seen[0].body.topic_data
    with cluster.control("Produce", lambda request: 1 / 0, times=1) as broken:
        assert send(cluster, b"1")[0].is_acknowledged
    assert broken.struck == 1
    assert cluster.brokers[0].wait_for_line("control.failed")


def test_the_clock_of_brokers_moves_on_command(cluster):
    def wall():
        return cluster.brokers[0].call(lambda hosted: hosted.parts.clock().wall)

    cluster.create_topic("stamped", message_timestamp_type="LogAppendTime")
    with cluster.stop_clock():
        assert wall() == wall()
        send(cluster, b"1", topic="stamped")
        cluster.advance_clock(hours=7)
        send(cluster, b"2", topic="stamped")
        first, second = cluster.records("stamped")
        assert second.timestamp - first.timestamp == 7 * 3600 * 1000


def test_a_clock_never_goes_back():
    clock = VirtualClock()
    seen = [clock.now()]
    for step in (clock.stop, clock.start, clock.stop, lambda: clock.advance(5), clock.start, clock.stop, clock.start):
        step()
        seen.append(clock.now())
    assert seen == sorted(seen)


OVERLAPPING = [
    (
        lambda c: c.throttle(10**9),
        lambda c: c.throttle(2 * 10**9),
        lambda b: b.wire.bytes_per_s,
        (10**9, 2 * 10**9, None),
    ),
    (lambda c: c.slow_disk(0, ms=1), lambda c: c.slow_disk(0, ms=2), lambda b: b.disk.wait_s, (0.001, 0.002, 0.0)),
    (lambda c: c.full_disk(0), lambda c: c.full_disk(0), lambda b: b.disk.is_full, (True, True, False)),
    (lambda c: c.stop_clock(), lambda c: c.stop_clock(), lambda b: b._clock.is_stopped, (True, True, False)),
]


@pytest.mark.parametrize(("first", "second", "seen", "values"), OVERLAPPING)
def test_of_faults_that_overlap_the_newest_that_lasts_counts(cluster, first, second, seen, values):
    (broker,) = cluster.brokers
    for is_first_removed in (True, False):
        older, newer = first(cluster), second(cluster)
        assert seen(broker) == values[1]
        ended, left = (older, newer) if is_first_removed else (newer, older)
        ended.remove()
        assert seen(broker) == (values[1] if is_first_removed else values[0])
        left.remove()
        assert seen(broker) == values[2]


def test_a_clock_that_was_moved_is_set_back_by_a_restart(cluster):
    (broker,) = cluster.brokers
    cluster.advance_clock(hours=7)
    port, thread = broker.port, broker._thread
    cluster.reset_clock()
    assert broker._thread is not thread
    assert (broker.port, broker.is_running, broker.is_clock_moved) == (port, True, False)
    thread = broker._thread
    cluster.reset_clock()
    assert broker._thread is thread, "nothing to do"


def test_answers_leave_in_the_order_of_requests():
    def answer(number):
        return [b"\0\0\0\1", bytes([number])]

    header = RequestHeader(18, 0, 1, None)
    answers = Answers()
    answers.add(Slot(header, None, awaited=True))
    answers.add(Slot(header, answer(2), awaited=False))
    answers.add(Slot(header, None, awaited=True, lost=True))
    answers.add(Slot(header, answer(4), awaited=False))
    assert answers.ready() == []
    assert answers.answered(answer(1)) == answer(1) + answer(2)
    assert answers.answered(answer(3)) == []  # it is lost, and what comes after it stays behind
    assert list(split(answer(1) + answer(2))) == [answer(1), answer(2)]


def test_a_power_loss_leaves_what_was_synced(tmp_path):
    state = DiskState()
    disk = DisturbedDisk([str(tmp_path)], state)
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, b"synced")
    file.sync()
    file.write(0, b"SY")
    file.write(6, b" and more")
    file.truncate(3)
    disk.rename(f"{tmp_path}/a", f"{tmp_path}/b")
    never = disk.open(f"{tmp_path}/never", create=True)
    never.write(0, b"lost")
    disk.replace(f"{tmp_path}/whole", b"kept")
    assert (tmp_path / "b").stat().st_size == 3
    state.lose_unflushed([str(tmp_path)])
    assert disk.read(f"{tmp_path}/b") == b"synced"
    assert disk.read(f"{tmp_path}/never") == b""
    assert disk.read(f"{tmp_path}/whole") == b"kept"


def test_a_full_disk_refuses_what_is_new(tmp_path):
    state = DiskState()
    disk = DisturbedDisk([str(tmp_path)], state)
    file = disk.open(f"{tmp_path}/a", create=True)
    file.write(0, b"there")
    state.is_full = True
    for call in (
        lambda: file.write(5, b"more"),
        lambda: disk.open(f"{tmp_path}/b", create=True),
        lambda: disk.replace(f"{tmp_path}/a", b"x"),
        lambda: disk.make_folder(f"{tmp_path}/c"),
    ):
        with pytest.raises(DiskFull, match="no space left on device"):
            call()
    file.write(0, b"THERE")
    assert disk.read(f"{tmp_path}/a") == b"THERE"
    assert disk.usage(str(tmp_path))[1] == 0


def test_a_history_finds_what_is_lost(cluster):
    cluster.create_topic("kept")
    history = History()
    for delivery, value in zip(send(cluster, b"1", b"2", topic="kept"), (b"1", b"2"), strict=True):
        history.acknowledged("kept", 0, delivery.offset, value)
    history.read("kept", 0, 0, b"1")
    assert cluster.assert_no_loss(history).is_good
    history.acknowledged("kept", 0, 1, b"another")
    history.read("kept", 0, 5, b"gone")
    with pytest.raises(AssertionError, match=r"(?s)records are lost\n.*ack-mismatch: .*vanished: "):
        cluster.assert_no_loss(history)


def test_a_condition_says_what_it_saw(cluster):
    lag = cluster.lag("nobody")
    assert not lag < 5
    with pytest.raises(AssertionError, match="not within 0 s: the lag of group 'nobody' == 0; it was None"):
        cluster.wait_for(lag == 0, within_s=0)
    with pytest.raises(AssertionError, match="not within 0 s: last value: None"):
        cluster.wait_for(lambda: None, within_s=0)
    assert cluster.wait_for(lambda: 7) == 7
