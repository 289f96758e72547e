"""The mirror: what is in one cluster, Tidelog or a real Kafka, is in the other once, and groups find their place there."""

import pytest

from tests.spark.records import led, numbers, send
from tidelog.model import TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.access import Access
from tidelog.spark.pipelines import ground
from tidelog.spark.pipelines.mirror.offsets import committed, translate
from tidelog.spark.pipelines.mirror.pipeline import PIPELINE
from tidelog.spark.pipelines.mirror.places import OFFSET, TIME, NoCopy, Places
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.running import run

AT = 1_700_000_000_000
GROUP = "readers"


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


def create(bootstrap, **topics):
    with Admin(bootstrap) as admin:
        old = {"retention.ms": "-1"}  # what is sent is of 2023
        wanted = {name: ground.Shape(count, 1, old) for name, count in topics.items()}
        ground.make(admin, wanted)
        ground.wait_for(admin, wanted)
    for name in topics:
        led(bootstrap, name)


def mirror(spark, home, away, folder, **options):
    given = PIPELINE.complete({"to": away, **options})
    told = []
    plan = Plan(home, folder, given, once=True)
    run(PIPELINE.stages(spark, plan), once=True, tell=told.append)
    return told


def commit(bootstrap, offsets):
    with Consumer(bootstrap, GROUP) as consumer:
        consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})


def offsets_of(bootstrap):
    with Admin(bootstrap) as admin:
        return committed(admin, GROUP)


@pytest.fixture(scope="module")
def home(bootstrap):
    """A cluster with a topic of two partitions: plain records, a transaction that counts and one that does not."""
    create(bootstrap, home=2)
    send(bootstrap, "home", numbers(0, 40), 0, key=b"k", timestamp=AT, headers=[("h", b"1"), ("h", None)])
    send(bootstrap, "home", [None, b""], 1, timestamp=AT + 1)
    with TransactionalProducer(bootstrap, "t") as producer:
        producer.begin()
        producer.send("home", b"aborted", partition=1)
        producer.flush()  # what is not sent yet is not aborted but dropped
        producer.abort()
        with producer.transaction():
            for value in numbers(100, 110):
                producer.send("home", value, partition=1)
    return bootstrap


def test_each_record_is_copied_once_and_groups_find_their_place(spark, tides, home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirror")
    prefix = f"from{folder.name}."
    options = {"topics": "home", "prefix": prefix, "batch": "30", "groups": "read.*"}
    commit(home, {("home", 0): 17, ("home", 1): 6})
    told = mirror(spark, home, tides.bootstrap, folder, **options)
    assert told[-1].stage == "offsets"
    assert [report.standing.lag for report in told if report.stage == "copy"][-1] == 0
    originals, copies = read(home, "home"), read(tides.bootstrap, f"{prefix}home")
    for place, records in originals.items():
        copied = copies[TopicPartition(f"{prefix}home", place.partition)]
        assert [plain(record) for record in copied] == [plain(record) for record in records]
        assert [home_of(record) for record in copied] == [(record.offset, record.timestamp) for record in records]
    check_places(home, tides.bootstrap, prefix, originals, copies)
    send(home, "home", numbers(40, 50), 0)
    mirror(spark, home, tides.bootstrap, folder, **options)
    copied = read(tides.bootstrap, f"{prefix}home")[TopicPartition(f"{prefix}home", 0)]
    assert [int(record.value) for record in copied] == [*range(50)]


def check_places(home, away, prefix, originals, copies):
    """What a group has left to read at home is what it has left to read on the other side, wherever it is."""
    named = {"home": f"{prefix}home"}
    for first in (17, 29, 39, 40):
        commit(home, {("home", 0): first, ("home", 1): min(first, 15)})
        translate(Access(home), Access(away), named, GROUP)
        there = offsets_of(away)
        for place, records in originals.items():
            copy = TopicPartition(named["home"], place.partition)
            at = offsets_of(home)[place]
            left = [record.value for record in records if record.offset >= at]
            assert [record.value for record in copies[copy] if record.offset >= there[copy]] == left
    commit(home, {("home", 0): 3})
    assert translate(Access(home), Access(away), named, GROUP) == [], "offsets do not go back"


def test_a_group_that_has_moved_over_is_left_alone(tides):
    create(tides.bootstrap, moved=1, **{"copy.moved": 1})
    send(tides.bootstrap, "moved", numbers(0, 5))
    for number in range(5):
        send(tides.bootstrap, "copy.moved", [b"%d" % number], headers=[(OFFSET, b"%d" % number)])
    with Consumer(tides.bootstrap, "both", enable_auto_commit=False) as consumer:
        consumer.subscribe(["moved"])
        while not consumer.assignment:
            consumer.poll(0.2)
        consumer.commit({TopicPartition("moved", 0): 3})
        assert translate(Access(tides.bootstrap), Access(tides.bootstrap), {"moved": "copy.moved"}, "both") == []
    (found,) = translate(Access(tides.bootstrap), Access(tides.bootstrap), {"moved": "copy.moved"}, "both")
    assert (found.home, found.offset) == (3, 3)


def test_a_record_of_others_is_told(tides):
    create(tides.bootstrap, foreign=1)
    send(tides.bootstrap, "foreign", numbers(0, 3))
    with Consumer(tides.bootstrap) as consumer, pytest.raises(NoCopy, match="foreign-0 has a record at 1 without"):
        Places(consumer).of(TopicPartition("foreign", 0), 1)


def test_a_topic_with_too_few_partitions_is_refused(spark, tides, tmp_path):
    create(tides.bootstrap, wide=3, **{"few.wide": 1})
    with pytest.raises(WrongOption, match=r"topic few\.wide has 1 partitions there and 3 at home"):
        mirror(spark, tides.bootstrap, tides.bootstrap, tmp_path, topics="wide", prefix="few.")
