"""Batches that are looked into off the event loop: the request waits, its connection keeps its order, others go on."""

import pytest

from tests.compatibility.differential.batches import with_field
from tests.node.one_broker import CLIENT, WALL, OneBroker
from tidelog.api.records.list_offsets import MAX_TIMESTAMP
from tidelog.errors import ErrorCode
from tidelog.wire.messages.cluster.features import ApiVersionsRequest
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.records import Record, build, records

OTHER = 3


def compacted(**options):
    broker = OneBroker(min_insync_replicas=1)
    broker.configure("topics/t", cleanup_policy="compact", **options)
    broker.lead(isr=(0,), replicas=(0,))
    broker.connect(OTHER)
    return broker


def large(key=b"k", *, kind=4):
    return build([Record(timestamp=WALL, key=key, value=bytes(200_000))], compression=kind)


def content(broker):
    log = broker.partition().log
    piece = log.read(0, 1 << 20, log.log_end_offset)
    data = piece.file.read(piece.position, piece.length) if piece else b""
    found = []
    while data:
        found += [record.value[:5] for record in records(data)]
        data = data[int.from_bytes(data[8:12]) + 12 :]
    return found


def test_a_large_batch_is_appended_once_it_was_looked_into():
    broker = compacted()
    number = broker.produce(records=large())
    assert broker.produced(number) is None
    assert broker.partition().log.log_end_offset == 0
    broker.computed()
    assert broker.produced(number) == (0, 0)


def test_a_small_batch_never_leaves_the_loop():
    broker = compacted()
    assert broker.produced(broker.produce("a")) == (0, 0)
    assert not broker.computations


def test_what_follows_on_the_connection_waits_and_keeps_its_order():
    broker = compacted()
    first = broker.produce(records=large())
    assert broker.paused[CLIENT]
    assert broker.retained[CLIENT] == len(large())
    second, third = broker.produce("b"), broker.send(ApiVersionsRequest(), version=0)
    assert broker.produced(second) is None
    assert third not in broker.answers
    broker.computed()
    assert (broker.produced(first), broker.produced(second)) == ((0, 0), (0, 1))
    assert third in broker.answers
    assert broker.retained[CLIENT] == 0
    assert not broker.paused[CLIENT]
    assert content(broker) == [bytes(5), b"b"]


def test_large_batches_behind_each_other_are_looked_into_one_by_one():
    broker = compacted()
    numbers = [broker.produce(records=large()) for _ in range(3)]
    for done in (1, 2, 3):
        assert len(broker.computations) == 1
        broker.computed()
        assert [broker.produced(number) for number in numbers] == [(0, n) if n < done else None for n in range(3)]
        assert broker.paused[CLIENT] == (done < 3)


def test_other_connections_are_served_meanwhile():
    broker = compacted()
    first = broker.produce(records=large())
    assert broker.produced(broker.produce("x", connection=OTHER)) == (0, 0)
    broker.computed()
    assert broker.produced(first) == (0, 1)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (large(key=None), ErrorCode.INVALID_RECORD),
        (
            build([Record(timestamp=WALL, key=b"k", value=bytes(20_000_000))], compression=4),
            ErrorCode.MESSAGE_TOO_LARGE,
        ),
    ],
    ids=["no key", "a bomb"],
)
def test_a_batch_that_does_not_pass_is_refused(batch, code):
    broker = compacted()
    number = broker.produce(records=batch)
    broker.computed()
    assert broker.produced(number) == (code, -1)
    assert broker.partition().log.log_end_offset == 0
    assert not broker.paused[CLIENT]


def test_a_refused_batch_without_acks_closes_the_connection():
    broker = compacted()
    broker.produce(records=large(key=None), acks=0)
    assert broker.closed == []
    broker.computed()
    assert broker.closed == [CLIENT]


def test_without_acks_the_connection_is_read_again():
    broker = compacted()
    broker.produce(records=large(), acks=0)
    number = broker.produce("b")
    broker.computed()
    assert broker.produced(number) == (0, 1)
    assert not broker.paused[CLIENT]


def test_a_client_that_left_has_nothing_appended():
    broker = compacted()
    broker.produce(records=large())
    broker.produce("b")
    broker.give("disconnected", CLIENT)
    broker.computed()
    assert broker.partition().log.log_end_offset == 0


def test_options_that_change_meanwhile_are_obeyed():
    broker = compacted()
    number = broker.produce(records=large())
    broker.configure("topics/t", cleanup_policy="compact", compression_type="lz4")
    broker.computed()
    assert broker.produced(number) is None
    broker.computed()
    assert broker.produced(number) == (0, 0)
    segment = broker.partition().log.segments.active
    assert segment.file.read(0, 61)[22] & 7 == 3


def test_a_leader_that_follows_by_then_refuses():
    broker = compacted()
    number = broker.produce(records=large())
    broker.follow(epoch=1)
    broker.computed()
    assert broker.produced(number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_batch_is_compressed_as_its_topic_wants():
    broker = compacted(compression_type="gzip")
    number = broker.produce(records=large())
    broker.computed()
    assert broker.produced(number) == (0, 0)
    assert content(broker) == [bytes(5)]
    assert broker.partition().log.segments.active.file.read(0, 61)[22] & 7 == 1


def stored(*batches):
    """A plain topic with these batches, one after the other."""
    broker = OneBroker(min_insync_replicas=1)
    broker.lead(isr=(0,), replicas=(0,))
    broker.connect(OTHER)
    for number, batch in enumerate(batches):
        assert broker.produced(broker.produce(records=batch))[0] == 0, number
    return broker


def offset_at(broker, timestamp, connection=CLIENT):
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    return broker.send(ListOffsetsRequest(replica_id=-1, topics=topics), connection)


def found(broker, number):
    if number not in broker.answers:
        return None
    answer = broker.answers[number].topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp


def timed(*times, kind=4, size=100_000):
    content = [Record(timestamp=WALL + time, key=b"k", value=bytes(size)) for time in times]
    return build(content, compression=kind)


@pytest.mark.parametrize(
    ("timestamp", "answer"),
    [(WALL + 5, (0, 1, WALL + 10)), (MAX_TIMESTAMP, (0, 2, WALL + 20)), (WALL + 21, (0, 3, WALL + 30))],
)
def test_a_time_within_a_large_batch_is_looked_up_off_the_loop(timestamp, answer):
    broker = stored(timed(0, 10, 20)) if timestamp == MAX_TIMESTAMP else stored(timed(0, 10, 20), timed(30, 40))
    number = offset_at(broker, timestamp)
    assert found(broker, number) is None
    assert found(broker, offset_at(broker, -1, OTHER))[0] == 0
    broker.computed()
    assert found(broker, number) == answer
    assert not broker.paused[CLIENT]


def test_a_time_within_a_small_batch_is_looked_up_at_once():
    broker = stored(timed(0, 10, size=10))
    assert found(broker, offset_at(broker, WALL + 5)) == (0, 1, WALL + 10)


def test_a_header_that_lies_about_its_times_is_believed():
    """Otherwise a log of such batches would be searched to its end."""
    lying = with_field(timed(0, 10, size=10), "max_timestamp", WALL + 1000)
    broker = stored(lying, lying)
    assert found(broker, offset_at(broker, WALL + 500)) == (0, 1, WALL + 1000)


def test_a_batch_that_cannot_be_decompressed_has_no_times():
    broker = stored(with_field(large(kind=0), "attributes", 4))
    number = offset_at(broker, WALL)
    broker.computed()
    assert found(broker, number)[0] == ErrorCode.CORRUPT_MESSAGE
