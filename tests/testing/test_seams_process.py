"""Faults at the seams of a broker, without a network client: wrong calls, answers in order, disks, clocks, histories."""

import pytest

from tidelog.errors import DiskFull
from tidelog.shell.transport import Producer
from tidelog.testing import Cluster, History
from tidelog.testing import ErrorCode as Exported
from tidelog.testing.answers import Answers, Slot, split
from tidelog.testing.clocks import VirtualClock
from tidelog.testing.disks import DiskState, DisturbedDisk
from tidelog.testing.names import api_key, error_code
from tidelog.testing.request_faults import _has_code
from tidelog.wire.codec import RequestHeader


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
    answers.add(Slot(header, None, awaited=True, lost=False, code=None))
    answers.add(Slot(header, answer(2), awaited=False, lost=False, code=None))
    answers.add(Slot(header, None, awaited=True, lost=True, code=None))
    answers.add(Slot(header, answer(4), awaited=False, lost=False, code=None))
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
