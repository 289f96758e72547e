"""The mirror: what is in one cluster, Tidelog or a real Kafka, is in the other once, and groups find their place there."""

import pytest

from tests.spark.records import create, make_topic, numbers, send, unique
from tests.waiting import wait_for
from tidelog.model import TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.access import Access
from tidelog.spark.pipelines.mirror import PIPELINE
from tidelog.spark.pipelines.offset_translation import OFFSET, TIME, CopiedOffsets, NoCopy, committed, translate
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run

AT = 1_700_000_000_000


def read(bootstrap, topic):
    """Everything that is committed, by partition."""
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        places = consumer.partitions_of(topic)
        consumer.assign(places)
        consumer.seek_to_beginning(places)
        ends, found = consumer.end_offsets(places), {place: [] for place in places}
        while any(consumer.position(place) < end for place, end in ends.items()):
            for record in consumer.poll(5):
                found[TopicPartition(topic, record.partition)].append(record)
    return found


def plain(record):
    headers = [header for header in record.headers if header[0] not in (OFFSET, TIME)]
    return record.partition, record.key, record.value, headers


def home_of(record):
    return int(dict(record.headers)[OFFSET]), int(dict(record.headers)[TIME])


OLD = {"retention_ms": "-1"}
"""What is sent is of 2023."""


def mirror(spark, home, away, folder, **options):
    given = PIPELINE.complete({"to": away, **options})
    told = []
    plan = Plan(home, folder, given, once=True)
    run(PIPELINE.stages(spark, plan), once=True, on_progress=told.append)
    return told


def commit(bootstrap, group, offsets):
    with Consumer(bootstrap, group) as consumer:
        consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})


def offsets_of(bootstrap, group):
    with Admin(bootstrap) as admin:
        return committed(admin, group)


def filled(bootstrap):
    """A topic of two partitions: plain records, a transaction that counts and one that does not."""
    topic = make_topic(bootstrap, 2, **OLD)
    send(bootstrap, topic, numbers(0, 40), 0, key=b"k", timestamp=AT, headers=[("h", b"1"), ("h", None)])
    send(bootstrap, topic, [None, b""], 1, timestamp=AT + 1)
    with TransactionalProducer(bootstrap, topic) as producer:
        producer.begin()
        producer.send(topic, b"aborted", partition=1)
        producer.flush()  # what is not sent yet is not aborted but dropped
        producer.abort()
        with producer.transaction():
            for value in numbers(100, 110):
                producer.send(topic, value, partition=1)
    return topic


def test_each_record_is_copied_once_and_groups_find_their_place(spark, tides, bootstrap, tmp_path):
    topic, group = filled(bootstrap), unique("readers")
    prefix = f"{unique('from')}."
    options = {"topics": topic, "prefix": prefix, "batch": "30", "groups": f"{group[:-1]}[{group[-1]}]"}
    commit(bootstrap, group, {(topic, 0): 17, (topic, 1): 6})
    kill_within_first_offsets(tmp_path / "copy")
    told = mirror(spark, bootstrap, tides.bootstrap, tmp_path, **options)
    assert told[-1].stage == "offsets"
    assert [report.standing.lag for report in told if report.stage == "copy"][-1] == 0
    originals, copies = read(bootstrap, topic), read(tides.bootstrap, f"{prefix}{topic}")
    for place, records in originals.items():
        copied = copies[TopicPartition(f"{prefix}{topic}", place.partition)]
        assert [plain(record) for record in copied] == [plain(record) for record in records]
        assert [home_of(record) for record in copied] == [(record.offset, record.timestamp) for record in records]
    check_places(bootstrap, tides.bootstrap, {topic: f"{prefix}{topic}"}, group, originals, copies)
    send(bootstrap, topic, numbers(40, 50), 0)
    mirror(spark, bootstrap, tides.bootstrap, tmp_path, **options)
    copied = read(tides.bootstrap, f"{prefix}{topic}")[TopicPartition(f"{prefix}{topic}", 0)]
    assert [int(record.value) for record in copied] == [*range(50)]


def kill_within_first_offsets(checkpoint):
    """What a driver leaves that is killed there. Spark refuses to begin in it."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    for name in (".0.b71fe87d-cdb2.tmp", ".0.b71fe87d-cdb2.tmp.crc"):
        (checkpoint / "offsets" / name).touch()


def check_places(home, away, named, group, originals, copies):
    """What a group has left to read at home is what it has left to read on the other side, wherever it is."""
    ((topic, copy),) = named.items()
    for first in (17, 29, 39, 40):
        commit(home, group, {(topic, 0): first, (topic, 1): min(first, 15)})
        translate(Access(home), Access(away), named, group)
        here, there = offsets_of(home, group), offsets_of(away, group)
        for place, records in originals.items():
            its = TopicPartition(copy, place.partition)
            left = [record.value for record in records if record.offset >= here[place]]
            assert [record.value for record in copies[its] if record.offset >= there[its]] == left
    commit(home, group, {(topic, 0): 3})
    assert translate(Access(home), Access(away), named, group) == [], "offsets do not go back"


def test_a_group_that_has_moved_over_is_left_alone(tides):
    topic, copy, group = create(tides, "moved", **OLD), create(tides, "copy", **OLD), unique("both")
    send(tides.bootstrap, topic, numbers(0, 5))
    for number in range(5):
        send(tides.bootstrap, copy, [b"%d" % number], headers=[(OFFSET, b"%d" % number)])
    both = Access(tides.bootstrap), Access(tides.bootstrap), {topic: copy}, group
    with Consumer(tides.bootstrap, group, enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll() or consumer.assignment, "the consumer is a member")
        consumer.commit({TopicPartition(topic, 0): 3})
        assert translate(*both) == []
    (found,) = translate(*both)
    assert (found.home, found.offset) == (3, 3)


def test_a_record_of_others_is_reported(tides):
    topic = create(tides, "foreign", **OLD)
    send(tides.bootstrap, topic, numbers(0, 3))
    with Consumer(tides.bootstrap) as consumer, pytest.raises(NoCopy, match=f"{topic}-0 has a record at 1 without"):
        CopiedOffsets(consumer).of(TopicPartition(topic, 0), 1)


def test_a_topic_with_too_few_partitions_is_refused(tides, tmp_path):
    wide = create(tides, "wide", 3, **OLD)
    tides.create_topic(f"few.{wide}", 1)
    with pytest.raises(WrongOption, match=rf"topic few\.{wide} has 1 partitions there and 3 at home"):
        mirror(None, tides.bootstrap, tides.bootstrap, tmp_path, topics=wide, prefix="few.")
