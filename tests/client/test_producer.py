"""The producer: what is acknowledged is in the log, once, in order; what cannot be is reported with its code."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.client.ground import BOOTSTRAP, INIT_PRODUCER_ID, METADATA, PRODUCE, Ground
from tests.client.partition_log import Logs
from tidelog.client.options import ProducerOptions
from tidelog.client.producer import Producer
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.model import TopicPartition
from tidelog.wire.messages.records.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tidelog.wire.records import header

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class Story:
    """A producer on a ground with logs."""

    def __init__(self, seed=0, **options):
        self.ground = Ground(seed)
        self.logs = Logs(self.ground)
        self.producer = self.ground.start(Producer(BOOTSTRAP, ProducerOptions(**options), self.ground.entropy))
        self.told = []

    def send(self, value, partition=0, **named):
        return self.ground.call(self.producer.send, "t", value, self.ground.now, partition=partition, **named)

    def settle(self, milliseconds=600_000):
        """Wait until every record's result is known; returns the results, in order."""
        self.ground.run_until(lambda: not self.producer.pending, milliseconds)
        told = self.producer.take_deliveries()
        self.told += told
        return told

    def errors(self):
        return Counter(delivery.error for delivery in self.told)

    def produced(self):
        return self.ground.requests(PRODUCE)


def test_records_are_acknowledged_with_their_offsets():
    story = Story()
    tickets = [story.send(b"%d" % number, timestamp=number) for number in range(3)]
    told = story.settle()
    assert [(d.ticket, d.offset, d.timestamp) for d in told] == [(t, i, i) for i, t in enumerate(tickets)]
    assert story.logs.logs[T0].values() == [b"0", b"1", b"2"]
    assert story.producer.buffered_bytes == 0


def test_records_wait_for_linger_and_travel_together():
    story = Story(linger_ms=50)
    story.send(b"first")
    story.settle()
    start = story.ground.now.mono
    story.send(b"a")
    story.ground.run(30)
    story.send(b"b")
    story.settle()
    assert 50 <= story.ground.now.mono - start <= 60
    assert len(story.produced()) == 2


def test_a_full_batch_does_not_wait():
    story = Story(linger_ms=10_000, batch_size=1000)
    story.send(b"x" * 900)
    story.send(b"y" * 900)
    story.ground.run(200)
    assert len(story.logs.logs[T0].batches) == 1


def test_flush_does_not_wait():
    story = Story(linger_ms=10_000)
    story.send(b"x")
    story.ground.call(story.producer.flush, story.ground.now)
    assert story.settle(100)[0].is_acknowledged


def test_one_request_carries_the_partitions_of_one_leader():
    story = Story()
    story.ground.leaders[T1] = (0, 1)
    story.send(b"0", partition=0)
    story.send(b"1", partition=1)
    story.settle()
    (request,) = story.produced()
    assert [data.index for data in request.topic_data[0].partition_data] == [0, 1]


def test_without_acks_nobody_answers():
    story = Story(acks=0)
    story.send(b"x")
    (told,) = story.settle(1000)
    assert told.is_acknowledged
    assert told.offset == -1
    story.ground.run(10)
    assert story.logs.logs[T0].values() == [b"x"]


def test_a_new_leader_gets_what_the_old_one_refuses():
    story = Story()
    story.send(b"a")
    story.settle()
    story.ground.leaders[T0] = (2, 2)
    story.send(b"b")
    (told,) = story.settle()
    assert told.offset == 1
    assert story.ground.asked[-1][0] == 2


def test_a_killed_leader_costs_nothing_but_time():
    story = Story()
    for number in range(20):
        story.send(b"%d" % number)
        story.ground.run(3)
        if number == 10:
            story.ground.kill(0)
    story.settle()
    assert story.errors() == {ErrorCode.NONE: 20}
    assert story.logs.logs[T0].values() == [b"%d" % number for number in range(20)]


def test_no_more_than_a_broker_knows_again_is_sent_while_the_old_leader_owes_answers():
    """Simulated seed 5000019: the sixth and seventh batch went to the new leader, and the first, sent again, was too
    old there to be known."""
    story = Story(linger_ms=0)
    story.send(b"0")
    story.send(b"elsewhere", partition=1)
    story.settle()
    refuse = ErrorCode.NOT_LEADER_OR_FOLLOWER

    def old_leader(broker, request, reply):
        """Appends, loses its role, and says so late."""
        if broker:
            story.logs.produce(broker, request, reply)
            return
        story.logs.produce(broker, request, lambda _: None)
        part = PartitionProduceResponse(index=0, error_code=refuse, base_offset=-1)
        topic = TopicProduceResponse(topic_id=request.topic_data[0].topic_id, partition_responses=[part])
        story.ground.later(2_000, lambda: reply(ProduceResponse(responses=[topic])))

    story.ground.handlers[PRODUCE] = old_leader
    for number in range(1, 6):
        story.send(b"%d" % number)
        story.ground.run(2)
    story.ground.leaders[T0] = (2, 2)
    story.producer.cluster.request_metadata_update(story.ground.now)
    story.ground.run(500)
    for number in range(6, 8):
        story.send(b"%d" % number)
        story.ground.run(20)
    story.settle()
    assert story.errors() == {ErrorCode.NONE: 9}
    assert story.logs.logs[T0].values() == [b"%d" % number for number in range(8)]


def test_until_the_first_batch_is_acknowledged_no_other_follows_it():
    """Seen: 0, 74 and 75 on their way to a partition that had acknowledged nothing. Where the first fails, a broker that
    knows nothing of the producer cannot tell that one is missing."""
    story = Story(linger_ms=0)
    answers = []

    def slow(broker, request, reply):
        story.logs.produce(broker, request, lambda response: answers.append((reply, response)))

    def sent():
        return [header(data.records).base_sequence for request in story.produced()
                for topic in request.topic_data for data in topic.partition_data if data.index == 0]  # fmt: skip

    story.ground.handlers[PRODUCE] = slow
    for number in range(4):
        story.send(b"%d" % number)
        story.send(b"%d" % number, partition=1)
        story.ground.run(20)
    assert sent() == [0]
    for reply, response in answers:
        reply(response)
    answers.clear()
    for number in range(4, 7):
        story.send(b"%d" % number)
        story.ground.run(20)
    assert sent() == [0, 1, 5, 6], "then as many as may be"
    story.ground.handlers[PRODUCE] = story.logs.produce
    for reply, response in answers:
        reply(response)
    story.settle()
    assert story.errors() == {ErrorCode.NONE: 11}
    assert story.logs.logs[T0].values() == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("seed", range(12))
def test_lost_requests_and_answers_neither_lose_nor_repeat_nor_reorder(seed):
    story = Story(seed, linger_ms=0, batch_size=200, max_in_flight_requests_per_connection=5)
    chance = story.ground.chance
    story.ground.drops_request = story.ground.drops_answer = lambda: chance.random() < 0.08
    for number in range(150):
        story.send(b"%d" % number, partition=number % 2)
        story.ground.run(chance.randrange(4))
        if number % 40 == 39:
            story.ground.leaders[T0] = (chance.randrange(3), story.ground.leaders[T0][1] + 1)
    story.settle()
    assert story.errors() == {ErrorCode.NONE: 150}
    for partition in (0, 1):
        expected = [b"%d" % number for number in range(150) if number % 2 == partition]
        assert story.logs.logs[TopicPartition("t", partition)].values() == expected


@pytest.mark.parametrize("seed", range(8))
def test_under_delivery_timeouts_what_is_acknowledged_is_there_once_and_in_order(seed):
    """Batches are given up while nobody knows whether they were taken: the epoch has to be raised."""
    story = Story(
        seed, linger_ms=0, batch_size=100, delivery_timeout_ms=400, request_timeout_ms=200, retry_backoff_ms=20
    )
    chance = story.ground.chance
    story.ground.drops_request = story.ground.drops_answer = lambda: chance.random() < 0.3
    tickets = {}
    for number in range(200):
        tickets[story.send(b"%d" % number)] = b"%d" % number
        story.ground.run(chance.randrange(30))
    story.ground.drops_request = story.ground.drops_answer = lambda: False
    story.settle()
    values = story.logs.logs[T0].values()
    assert len(set(values)) == len(values)
    assert values == sorted(values, key=int)
    acknowledged = {tickets[delivery.ticket] for delivery in story.told if delivery.is_acknowledged}
    assert acknowledged <= set(values)
    in_doubt = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    assert set(story.errors()) <= {ErrorCode.NONE, *in_doubt}
    story.ground.run(5_000)
    story.send(b"after")
    assert story.settle()[0].is_acknowledged


def test_a_lost_record_does_not_lose_those_behind_it():
    """The broker forgot the producer's numbers: the epoch is raised and everything goes on from 0."""
    story = Story(linger_ms=0)
    story.send(b"a")
    story.settle()
    story.logs.logs[T0].producers.clear()
    story.send(b"b")
    assert story.settle()[0].is_acknowledged
    assert story.logs.logs[T0].values() == [b"a", b"b"]
    assert story.producer.sequences.epoch == 1


def test_what_a_broker_took_and_forgot_is_not_sent_under_new_numbers():
    """Two batches are taken, their answers are lost, and the broker starts from a snapshot, which holds only the last
    batch of a producer: the first one, sent again, looks like a gap. `tidelog chaos --seed 3` found it twice in the
    log."""
    story = Story(linger_ms=0, batch_size=1)
    story.send(b"a")
    story.settle()
    log, answers = story.logs.logs[T0], story.ground.handlers[PRODUCE]
    story.ground.handlers[PRODUCE] = lambda broker, request, _reply: answers(broker, request, lambda _response: None)
    for value in (b"b", b"c"):
        story.send(value)
    assert story.ground.run_until(lambda: len(log.values()) == 3, milliseconds=1_000)
    for _, window in log.producers.values():
        del window[:-1]
    story.ground.handlers[PRODUCE] = answers
    told = story.settle()
    assert {delivery.error for delivery in told} == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
    story.send(b"d")
    assert story.settle()[0].is_acknowledged
    assert log.values() == [b"a", b"b", b"c", b"d"]


def test_a_fatal_refusal_moves_the_numbers_of_those_behind_it_up():
    story = Story(linger_ms=0, batch_size=1)
    story.send(b"a")
    story.settle()
    refusals = iter([ErrorCode.INVALID_RECORD])
    story.logs.mood = lambda _key, _partition, _broker: next(refusals, ErrorCode.NONE)
    for value in (b"bad", b"b", b"c"):
        story.send(value)
    told = story.settle()
    assert Counter(delivery.error for delivery in told) == {ErrorCode.INVALID_RECORD: 1, ErrorCode.NONE: 2}
    assert story.logs.logs[T0].values() == [b"a", b"b", b"c"]
    assert story.producer.sequences.epoch == 0


def test_a_batch_that_is_too_large_is_split():
    story = Story()
    sizes = []

    def mood(_key, _partition, _broker):
        raw = story.produced()[-1].topic_data[0].partition_data[0].records
        sizes.append(len(raw))
        return ErrorCode.MESSAGE_TOO_LARGE if len(raw) > 500 else ErrorCode.NONE

    story.logs.mood = mood
    for number in range(10):
        story.send(b"%d" % number * 100)
    assert all(delivery.is_acknowledged for delivery in story.settle())
    assert story.logs.logs[T0].values() == [b"%d" % number * 100 for number in range(10)]
    assert max(sizes) > 500


def test_a_single_record_that_is_too_large_fails():
    story = Story(max_request_size=1000)
    story.send(b"x" * 1000)
    assert [delivery.error for delivery in story.settle()] == [ErrorCode.MESSAGE_TOO_LARGE]
    story.logs.mood = lambda *_: ErrorCode.MESSAGE_TOO_LARGE
    story.send(b"x")
    assert [delivery.error for delivery in story.settle()] == [ErrorCode.MESSAGE_TOO_LARGE]


def test_what_is_not_acknowledged_in_time_fails():
    story = Story(delivery_timeout_ms=5_000)
    story.logs.mood = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS
    story.send(b"x")
    story.ground.run(4_900)
    assert story.producer.pending == 1
    assert [delivery.error for delivery in story.settle(1_000)] == [ErrorCode.REQUEST_TIMED_OUT]


def test_retries_are_counted_without_idempotence():
    story = Story(acks=1, retries=2)
    story.logs.mood = lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS
    story.send(b"x")
    assert [delivery.error for delivery in story.settle()] == [ErrorCode.NOT_ENOUGH_REPLICAS]
    assert len(story.produced()) == 3


def test_retries_wait_longer_each_time():
    story = Story(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    arrivals = []

    def mood(*_):
        arrivals.append(story.ground.now.mono)
        return ErrorCode.NONE if len(arrivals) == 5 else ErrorCode.NOT_ENOUGH_REPLICAS

    story.logs.mood = mood
    story.send(b"x")
    story.settle()
    gaps = [later - earlier for earlier, later in pairwise(arrivals)]
    assert gaps == sorted(gaps)
    assert gaps[0] >= 100
    assert gaps[-1] >= 800


def test_a_topic_that_never_appears_fails_after_max_block():
    story = Story(max_block_ms=3_000)
    story.ground.call(story.producer.send, "nowhere", b"x", story.ground.now)
    (told,) = story.settle()
    assert told.error is ErrorCode.REQUEST_TIMED_OUT
    assert "nowhere" in told.message
    assert 3_000 <= story.ground.now.mono < 3_500


def test_a_topic_that_may_not_be_used_fails_at_once():
    story = Story()
    story.ground.topic_errors["secret"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    story.ground.call(story.producer.send, "secret", b"x", story.ground.now)
    assert [delivery.error for delivery in story.settle(1_000)] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_records_for_a_topic_that_appears_keep_their_order():
    story = Story()
    for number in range(5):
        story.ground.call(story.producer.send, "new", b"%d" % number, story.ground.now)
    story.ground.run(300)
    story.ground.leaders[TopicPartition("new", 0)] = (2, 0)
    story.ground.topic_ids["new"] = bytes([9]) * 16
    assert all(delivery.is_acknowledged for delivery in story.settle())
    assert story.logs.logs[TopicPartition("new", 0)].values() == [b"0", b"1", b"2", b"3", b"4"]


def test_a_producer_asks_for_an_id_once_and_only_to_be_idempotent():
    story = Story()
    story.send(b"x")
    story.send(b"y", partition=1)
    story.settle()
    assert len(story.ground.requests(INIT_PRODUCER_ID)) == 1
    plain = Story(enable_idempotence=False)
    plain.send(b"x")
    plain.settle()
    assert plain.ground.requests(INIT_PRODUCER_ID) == []


def test_options_that_contradict_each_other_are_refused():
    with pytest.raises(InvalidOption, match="acks=all"):
        Story(acks=1, enable_idempotence=True)
    assert not ProducerOptions(acks=1).is_idempotent
    assert ProducerOptions().is_idempotent


def test_an_idle_producer_has_nothing_to_do_until_its_metadata_is_old():
    story = Story(metadata_max_age_ms=300_000)
    story.send(b"x")
    story.settle()
    before = len(story.ground.requests(METADATA))
    story.ground.run(299_000)
    assert len(story.ground.requests(METADATA)) == before
    story.ground.run(10_000)
    assert len(story.ground.requests(METADATA)) == before + 1


def test_a_broker_that_does_not_answer_is_given_up_on():
    story = Story(request_timeout_ms=1_000)
    silent = []
    answering = story.ground.handlers[PRODUCE]
    story.ground.handlers[PRODUCE] = lambda *arguments: silent.append(arguments)
    story.send(b"x")
    story.ground.run_until(lambda: silent)
    story.ground.handlers[PRODUCE] = answering
    assert story.settle(5_000)[0].is_acknowledged


def test_batches_keep_their_order_though_the_first_waited_too_long_for_the_connection():
    """Simulated seed 6022: what was sent again stood behind what came after it, and a new producer's later batch was
    taken first."""
    story = Story(linger_ms=0, request_timeout_ms=1_000)
    story.send(b"-1", partition=1)
    story.settle()
    connect = story.ground._connect
    story.ground._connect = lambda effect: story.ground.later(
        1_300 if effect.host == "host0" else 0, lambda: connect(effect)
    )
    story.send(b"0")
    story.ground.run(700)
    story.send(b"1")
    story.settle()
    assert story.logs.logs[T0].values() == [b"0", b"1"]
    assert story.errors() == {ErrorCode.NONE: 3}
    sent = [
        part.records for asked in story.produced() for part in asked.topic_data[0].partition_data if part.index == 0
    ]
    assert [header(batch).base_sequence for batch in sent] == [0, 1]


def test_batches_that_expire_together_are_reported_in_their_order():
    story = Story(linger_ms=0, delivery_timeout_ms=2_000, batch_size=100)
    story.send(b"first")
    story.settle()
    story.ground.handlers[PRODUCE] = lambda *_: None
    tickets = [story.send(b"x" * 90) for _ in range(5)]
    assert [delivery.ticket for delivery in story.settle()] == tickets
    assert story.errors() == {ErrorCode.NONE: 1, ErrorCode.REQUEST_TIMED_OUT: 5}


def test_why_a_record_is_not_acknowledged_yet():
    """With acks=all a leader that answers nothing may be waiting for its followers."""
    for acks, reason in (
        ("all", "t-0: leader 0 has not acknowledged it; acks=all also waits for in-sync 1, 2"),
        (1, "t-0: leader 0 does not answer"),
    ):
        story = Story(acks=acks, enable_idempotence=False, request_timeout_ms=1_000)
        story.ground.handlers[PRODUCE] = lambda *_: None
        story.send(b"x")
        story.ground.run_until(lambda: False, 5_000)
        assert story.producer.waits(story.ground.now, 2_000) == [reason]
