"""The consumer on partitions that were assigned by hand: every record once, in order, from where it stands."""

import pytest

from tests.client.ground import BOOTSTRAP, FETCH, OFFSET_FETCH, Ground
from tests.client.group import Coordinator
from tests.client.partition_log import Logs
from tidelog.client.consumer import Consumer
from tidelog.client.options import ConsumerOptions
from tidelog.client.positions import EARLIEST, LATEST
from tidelog.client.results import Failed, Truncated
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.model import TopicPartition
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import AbortedTransaction, EpochEndOffset
from tidelog.wire.records import Marker, Record

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class Story:
    """A consumer on a ground with logs."""

    def __init__(self, **options):
        self.ground = Ground()
        self.logs = Logs(self.ground)
        options = {"auto_offset_reset": "earliest", **options}
        self.consumer = self.ground.start(Consumer(BOOTSTRAP, ConsumerOptions(**options), self.ground.entropy))
        self.events = []

    def fill(self, *values, partition=T0, **named):
        log = self.logs.logs[partition]
        content = [Record(timestamp=1000 + log.end + index, value=value) for index, value in enumerate(values)]
        log.append(records.build(content, **named), self.ground.leaders[partition][1])

    def assign(self, *partitions):
        self.ground.call(self.consumer.assign, partitions or (T0,), self.ground.now)

    def poll(self, milliseconds=2_000, most=None):
        """The first records within that time."""
        taken = []

        def polled():
            taken.extend(self.ground.call(self.consumer.poll, self.ground.now, most))
            self.events += self.consumer.take_events()
            return bool(taken)

        self.ground.run_until(polled, milliseconds)
        return taken

    def poll_until(self, condition, milliseconds=10_000):
        """Poll once after everything that happens, until the condition holds."""

        def polled():
            self.ground.call(self.consumer.poll, self.ground.now)
            self.events += self.consumer.take_events()
            return condition()

        assert self.ground.run_until(polled, milliseconds)

    def values(self, milliseconds=2_000):
        return [record.value for record in self.poll(milliseconds)]

    def redirect(self, replica):
        """The leader names another replica for its records, which any broker has."""
        answer = self.logs._fetch

        def redirecting(partition, wanted, broker):
            found = answer(partition, wanted, broker)
            if broker == 0:
                found.preferred_read_replica, found.records = replica, b""
            return found

        self.logs._fetch = redirecting
        self.logs._code = lambda *_: ErrorCode.NONE

    def done(self, ticket):
        results = []
        self.ground.run_until(lambda: results.extend(self.consumer.take_results()) or results)
        (result,) = results
        assert result.ticket == ticket
        return result


def test_records_come_in_order_with_all_that_belongs_to_them():
    story = Story()
    log = story.logs.logs[T0]
    log.append(records.build([Record(0, 55, b"k", b"v", [("h", None)]), Record(0, 56, None, None)], compression=4), 1)
    story.assign()
    first, second = story.poll()
    assert first == ("t", 0, 0, 55, b"k", b"v", [("h", None)], 1, "CreateTime")
    assert second[2:6] == (1, 56, None, None)
    assert story.consumer.position(T0) == 2


def test_what_comes_later_is_read_too():
    story = Story()
    story.assign()
    assert story.values(700) == []
    story.fill(b"late")
    assert story.values() == [b"late"]


@pytest.mark.parametrize(("reset", "expected"), [("earliest", [b"old", b"new"]), ("latest", [b"new"])])
def test_without_a_committed_offset_the_reset_decides(reset, expected):
    story = Story(auto_offset_reset=reset)
    story.fill(b"old")
    story.assign()
    story.ground.run_until(lambda: story.consumer.position(T0) is not None)
    story.fill(b"new")
    values = story.values()
    values += story.values() if len(values) < len(expected) else []
    assert values == expected


def test_without_a_reset_the_user_gets_an_error():
    story = Story(auto_offset_reset="none")
    story.assign()
    assert story.poll(500) == []
    assert isinstance(story.events[0], Failed)
    assert story.events[0].error is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(InvalidOption, match=r"auto\.offset\.reset"):
        Story(auto_offset_reset="tomorrow")


def test_seek_goes_to_an_offset_in_the_middle_of_a_batch():
    story = Story()
    story.fill(b"0", b"1", b"2")
    story.assign()
    story.ground.call(story.consumer.seek, T0, 1, story.ground.now)
    assert story.values() == [b"1", b"2"]
    story.ground.call(story.consumer.seek, T0, 0, story.ground.now)
    assert story.values() == [b"0", b"1", b"2"]


def test_what_was_buffered_before_a_seek_is_forgotten():
    story = Story()
    story.fill(b"0", b"1", b"2")
    story.assign()
    assert [record.value for record in story.poll(most=1)] == [b"0"]
    story.ground.call(story.consumer.seek, T0, 0, story.ground.now)
    assert story.values() == [b"0", b"1", b"2"]


def test_an_answer_from_an_earlier_assignment_moves_nothing():
    """Found by a seed: the search had waited for another partition's leader, and the place went back to the start."""
    story = Story()
    story.fill(b"0", b"1", b"2")
    leader = story.ground.leaders[T1]
    story.ground.leaders[T1] = (-1, 1)
    story.assign(T0, T1)
    story.ground.call(story.consumer.seek_to, [T0, T1], EARLIEST, story.ground.now)
    story.ground.run(1_000)
    story.ground.call(story.consumer.assign, (), story.ground.now)
    story.assign(T0)
    story.ground.call(story.consumer.seek, T0, 2, story.ground.now)
    assert story.values() == [b"2"]
    story.ground.leaders[T1] = leader
    assert story.values() == []


def test_a_poll_hands_out_at_most_max_poll_records():
    story = Story(max_poll_records=2)
    story.fill(*[b"%d" % number for number in range(5)])
    story.assign()
    assert [len(story.poll()) for _ in range(3)] == [2, 2, 1]


def test_paused_partitions_keep_what_they_have():
    story = Story()
    story.fill(b"a", b"b")
    story.fill(b"c", partition=T1)
    story.assign(T0, T1)
    assert len(story.poll(most=1)) == 1
    story.ground.call(story.consumer.pause, [T0], story.ground.now)
    assert story.values() == [b"c"]
    assert story.values(500) == []
    story.ground.call(story.consumer.resume, [T0], story.ground.now)
    assert story.values() == [b"b"]


def test_a_partition_is_fetched_again_only_when_its_buffer_is_empty():
    story = Story()
    story.fill(b"a", b"b")
    story.assign()
    story.poll(most=1)
    story.ground.run(3_000)
    assert len(story.ground.requests(FETCH)) == 1


def test_reading_goes_on_with_the_next_leader():
    story = Story()
    story.fill(b"a")
    story.assign()
    assert story.values() == [b"a"]
    story.ground.kill(0)
    story.fill(b"b")
    assert story.values(5_000) == [b"b"]


def test_a_new_leader_epoch_is_learnt():
    story = Story()
    story.fill(b"a")
    story.assign()
    assert story.values() == [b"a"]
    story.ground.leaders[T0] = (0, 7)
    story.fill(b"b")
    assert story.values(5_000) == [b"b"]
    assert story.ground.requests(FETCH)[-1].topics[0].partitions[0].current_leader_epoch == 7


def test_an_offset_that_was_deleted_is_reset():
    story = Story()
    story.fill(b"a")
    story.fill(b"b")
    story.assign()
    story.logs.logs[T0].start = 1
    story.logs.logs[T0].batches.pop(0)
    story.ground.call(story.consumer.seek, T0, 0, story.ground.now)
    assert story.values() == [b"b"]


def test_a_truncated_log_is_noticed_by_the_epoch_and_reported():
    story = Story()
    story.fill(b"a", b"b")
    story.assign()
    assert story.values() == [b"a", b"b"]
    answer = story.logs._fetch

    def diverging(partition, wanted, broker):
        found = answer(partition, wanted, broker)
        if wanted.fetch_offset == 2:
            assert wanted.last_fetched_epoch == 1
            found.diverging_epoch = EpochEndOffset(epoch=1, end_offset=1)
        return found

    story.logs._fetch = diverging
    assert story.values(2_000) == [b"b"]
    assert Truncated(T0, 2, 1) in story.events


def test_a_closer_replica_is_read_as_the_leader_says():
    story = Story(client_rack="here")
    story.fill(b"a")
    story.assign()
    story.redirect(2)
    assert story.values() == [b"a"]
    assert [broker for broker, key, _, _ in story.ground.asked if key == FETCH][:2] == [0, 2]


def test_a_closer_replica_that_the_metadata_does_not_list_is_looked_up_and_nobody_is_asked_in_a_loop():
    """Seed 700036: the leader named it at once again, some 800 times a second, until the metadata grew old."""
    story = Story(client_rack="here")
    story.ground.down = {2}
    story.fill(b"a")
    story.assign()
    story.redirect(2)
    assert story.values(1_000) == []
    assert sum(key == FETCH for _, key, _, _ in story.ground.asked) <= 11
    story.ground.down = set()
    assert story.values(1_000) == [b"a"]


def transactional(value, producer_id):
    return records.build(
        [Record(timestamp=5, value=value)],
        attributes=records.TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_committed", [b"plain", b"kept", b"again"]), ("read_uncommitted", [b"plain", b"gone", b"kept", b"again"])],
)
def test_aborted_transactions_are_left_out_for_those_who_want_it(isolation, expected):
    story = Story(isolation_level=isolation)
    log = story.logs.logs[T0]
    log._check = lambda _batch: (None, -1)
    log.producers = {1: (0, []), 2: (0, [])}
    story.fill(b"plain")
    log.append(transactional(b"gone", 1), 1)
    log.append(transactional(b"kept", 2), 1)
    for producer, committed in ((1, False), (2, True)):
        log.append(records.build_marker(Marker(committed, 0), timestamp=6, producer_id=producer, producer_epoch=0), 1)
    log.append(transactional(b"again", 1), 1)
    answer = story.logs._fetch

    def with_list(partition, wanted, broker):
        found = answer(partition, wanted, broker)
        found.aborted_transactions = [AbortedTransaction(producer_id=1, first_offset=1)]
        return found

    story.logs._fetch = with_list
    story.assign()
    assert story.values() == expected
    assert story.consumer.position(T0) == 6


def test_a_partition_that_ends_with_control_records_is_read_to_its_end():
    story = Story()
    log = story.logs.logs[T0]
    log.append(
        records.build_marker(
            Marker(committed=True, coordinator_epoch=0), timestamp=6, producer_id=-1, producer_epoch=-1
        ),
        1,
    )
    story.assign()
    assert story.poll(300) == []
    assert story.consumer.position(T0) == 1


def test_bad_bytes_are_reported_and_the_position_stays():
    story = Story()
    story.fill(b"good")
    story.fill(b"bad")
    log = story.logs.logs[T0]
    log.batches[1] = log.batches[1][:-1] + b"!"
    story.assign()
    assert story.values() == [b"good"]
    assert story.poll(300) == []
    assert story.events[0].error is ErrorCode.CORRUPT_MESSAGE
    assert story.consumer.position(T0) == 1
    story.ground.call(story.consumer.seek, T0, 2, story.ground.now)
    story.fill(b"behind it")
    assert story.values() == [b"behind it"]


def test_offsets_are_found_by_time():
    story = Story()
    story.fill(b"a", b"b", b"c")
    story.fill(b"x", partition=T1)
    wanted = {T0: 1001, T1: 5_000}
    found = story.done(story.ground.call(story.consumer.look_up, wanted, story.ground.now)).value
    assert {partition: place.offset for partition, place in found.items()} == {T0: 1, T1: -1}
    ends = story.done(story.ground.call(story.consumer.look_up, {T0: LATEST, T1: EARLIEST}, story.ground.now)).value
    assert {partition: place.offset for partition, place in ends.items()} == {T0: 3, T1: 0}


def test_a_search_survives_a_leader_that_moves_and_ends_in_time_without_one():
    story = Story(default_api_timeout_ms=5_000)
    story.fill(b"a")
    story.ground.kill(0)
    ticket = story.ground.call(story.consumer.look_up, {T0: LATEST}, story.ground.now)
    assert story.done(ticket).value[T0].offset == 1
    story.ground.leaders[T0] = (-1, 9)
    ticket = story.ground.call(story.consumer.look_up, {T0: LATEST}, story.ground.now)
    assert story.done(ticket).error is not ErrorCode.NONE


def test_a_place_in_time_can_be_sought():
    story = Story()
    story.fill(b"a", b"b", b"c")
    story.assign()
    story.ground.call(story.consumer.seek_to, [T0], 1002, story.ground.now)
    assert story.values() == [b"c"]
    story.ground.call(story.consumer.seek_to, [T0], 9_999, story.ground.now)
    story.ground.run_until(lambda: story.consumer.position(T0) is not None)
    assert story.consumer.position(T0) == 3


def test_old_brokers_without_topic_ids_are_asked_by_name():
    story = Story()
    story.ground.ranges[FETCH] = (4, 12)
    story.fill(b"a")
    story.assign()
    assert story.values() == [b"a"]
    assert {version for _, key, version, _ in story.ground.asked if key == FETCH} == {12}


def test_without_a_group_there_is_nothing_to_subscribe_or_commit_to():
    story = Story()
    with pytest.raises(InvalidOption, match=r"group\.id"):
        story.consumer.subscribe(["t"], story.ground.now)
    ticket = story.ground.call(story.consumer.commit, story.ground.now)
    assert story.done(ticket).error is ErrorCode.INVALID_GROUP_ID


def test_a_leader_of_an_older_epoch_than_that_of_the_committed_offset_is_not_asked():
    story = Story(group_id="g", metadata_max_age_ms=1_000)
    coordinator = Coordinator(story.ground)
    coordinator.committed[T0] = 1
    coordinator.epochs[T0] = 3
    story.fill(b"0", b"1")
    story.assign()
    assert story.values(5_000) == [], "the leader of epoch 1 does not know of epoch 3"
    story.ground.leaders[T0] = (1, 3)
    assert story.values(5_000) == [b"1"]


def test_committed_positions_are_asked_for_by_the_ids_of_their_topics():
    """What was committed in a topic of the same name that is gone is none of this one's (seed 6003126)."""
    story = Story(group_id="g")
    coordinator = Coordinator(story.ground)
    coordinator.committed[T0] = 1
    asked, fetch = [], story.ground.handlers[OFFSET_FETCH]

    def heard(broker, request, reply):
        asked.extend((topic.name, topic.topic_id) for topic in request.groups[0].topics)
        fetch(broker, request, reply)

    story.ground.handlers[OFFSET_FETCH] = heard
    story.fill(b"0", b"1")
    story.assign()
    assert story.values() == [b"1"]
    first, second = story.ground.topic_ids["t"], bytes([8]) * 16
    assert asked == [("", first)]
    story.ground.call(story.consumer.pause, [T0], story.ground.now)
    story.ground.run(2_000)
    story.ground.topic_ids["t"] = second
    ticket = story.ground.call(story.consumer.committed, [T0], story.ground.now)
    assert story.done(ticket).value[T0].offset == 1
    assert (asked[1], asked[-1]) == (("", first), ("", second)), (
        "it hears that nobody knows the id, and asks for the next"
    )


def test_who_asks_for_the_positions_of_no_partition_is_told_none():
    story = Story(group_id="g")
    Coordinator(story.ground)
    ticket = story.ground.call(story.consumer.committed, [], story.ground.now)
    assert story.done(ticket).value == {}
