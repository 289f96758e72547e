"""Tidelog's sink beside Spark's own Kafka connector: what both write is the same, record by record and partition by
partition, and what one refuses the other refuses; on Tidelog and on a real Kafka."""

from collections import Counter

import pytest

from tests.spark.records import make_topic
from tests.spark.test_sink_kills import committed
from tidelog.shell.transport import Consumer

HEADERS = "array<struct<key:string,value:binary>>"
BINARY = "cast(cast(id as string) as binary)"
NO_HEADERS = f"cast(null as {HEADERS})"
SOME_HEADERS = f"array(struct('h' as key, {BINARY} as value), struct('n' as key, cast(null as binary) as value))"

WRITTEN = {
    "text": ("cast(id as string) as key", "repeat('é', cast(id % 40 as int)) as value"),
    "bytes": (f"{BINARY} as key", f"{BINARY} as value"),
    "tombstones": ("cast(id % 7 as string) as key", "if(id % 2 = 0, cast(null as string), 'x') as value"),
    "long keys": ("repeat(cast(id as string), cast(id % 50 as int)) as key", "'v' as value"),
    "headers": (
        "cast(id as string) as key",
        "'v' as value",
        f"if(id % 3 = 0, {SOME_HEADERS}, if(id % 3 = 1, cast(array() as {HEADERS}), {NO_HEADERS})) as headers",
    ),
    "partitions": ("cast(id as string) as key", "'v' as value", "if(id % 2 = 0, 2, cast(null as int)) as partition"),
    "other columns": ("cast(id as string) as key", "'v' as value", "id as more"),
}
"""Frames of which every row has a place of its own: both sinks must agree on it."""


def topic_of(bootstrap):
    return make_topic(bootstrap, 3)


def write(frame, bootstrap, sink="tidelog", **options):
    writer = frame.write.format(sink).mode("append").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).save()


def records(bootstrap, topic):
    """(partition, key, value, headers) of every record."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(consumer.partitions_of(topic))
        consumer.assign(ends)
        found = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += consumer.poll(0.1)
    return Counter((r.partition, r.key, r.value, tuple(r.headers)) for r in found)


@pytest.mark.parametrize("case", WRITTEN)
def test_both_sinks_write_the_same_records_to_the_same_partitions(spark, bootstrap, case):
    frame = spark.range(0, 300, 1, 2).selectExpr(*WRITTEN[case])
    ours, theirs, once = (topic_of(bootstrap) for _ in range(3))
    write(frame, bootstrap, topic=ours)
    write(frame, bootstrap, "kafka", topic=theirs, includeHeaders="true")
    write(frame, bootstrap, topic=once, exactlyOnce="true")
    assert records(bootstrap, ours) == records(bootstrap, theirs)
    assert records(bootstrap, once) == records(bootstrap, theirs)
    assert sum(records(bootstrap, ours).values()) == 300


def test_columns_have_names_in_any_case(spark, bootstrap):
    topic = topic_of(bootstrap)
    write(spark.range(1).selectExpr("'k' as KEY", "'v' as Value"), bootstrap, topic=topic)
    assert [entry[1:3] for entry in records(bootstrap, topic)] == [(b"k", b"v")]


def test_rows_without_keys_are_all_there_and_spread(spark, bootstrap):
    frame = spark.range(0, 20_000, 1, 2).selectExpr("lpad(cast(id as string), 50, '0') as value")
    topic = topic_of(bootstrap)
    write(frame, bootstrap, topic=topic, **{"kafka.batch.size": "16384"})
    found = records(bootstrap, topic)
    assert Counter(value for _, _, value, _ in found.elements()) == Counter(b"%050d" % n for n in range(20_000))
    assert {partition for partition, *_ in found} == {0, 1, 2}


def test_rows_go_to_the_topics_they_name_unless_the_option_names_one(spark, bootstrap):
    first, second, third = (topic_of(bootstrap) for _ in range(3))
    named = f"if(id % 2 = 0, '{first}', '{second}') as topic"
    frame = spark.range(10).selectExpr("cast(id as string) as value", named)
    write(frame, bootstrap)
    assert [sum(records(bootstrap, topic).values()) for topic in (first, second)] == [5, 5]
    write(frame, bootstrap, topic=third)
    assert [sum(records(bootstrap, topic).values()) for topic in (first, second, third)] == [5, 5, 10]


def test_nothing_is_written_of_a_frame_without_rows(spark, bootstrap):
    topic = topic_of(bootstrap)
    for options in ({}, {"exactlyOnce": "true"}):
        write(spark.range(0).selectExpr("cast(id as string) as value"), bootstrap, topic=topic, **options)
    assert not records(bootstrap, topic)


def test_compressed_batches_that_are_too_large_for_the_topic_are_cut(spark, bootstrap):
    topic = topic_of(bootstrap)
    frame = spark.range(0, 3_000, 1, 1).selectExpr("lpad(cast(id as string), 1000, '0') as value")
    for codec in ("none", "zstd", "lz4"):
        write(frame, bootstrap, topic=topic, **{"kafka.compression.type": codec, "kafka.batch.size": "1000000000"})
    assert Counter(value for _, _, value, _ in records(bootstrap, topic).elements()) == Counter(
        {b"%01000d" % n: 3 for n in range(3_000)}
    )


FRAMES = {
    "no topic": (["'v' as value"], {}, "option 'topic' is needed", "topic option required"),
    "a null topic": (
        ["'v' as value", "cast(null as string) as topic"],
        {},
        "column 'topic' is null in a row",
        "contains a null topic",
    ),
    "a topic that is a number": (["'v' as value", "1 as topic"], {}, "column 'topic' must be string", "topic"),
    "no value": (["'k' as key"], {"topic": "t"}, "a column 'value' is needed", "value"),
    "a value that is a number": (["id as value"], {"topic": "t"}, "column 'value' must be string or binary", "value"),
    "a key that is a number": (["id as key", "'v' as value"], {"topic": "t"}, "column 'key' must be", "key"),
    "headers of another kind": (["'h' as headers", "'v' as value"], {"topic": "t"}, "'headers' must be", "headers"),
    "a long partition": (["id as partition", "'v' as value"], {"topic": "t"}, "'partition' must be int", "partition"),
    "a serializer of keys": (
        ["'v' as value"],
        {"topic": "t", "kafka.key.serializer": "x"},
        "'kafka.key.serializer' is not supported",
        "'key.serializer' is not supported",
    ),
    "a serializer of values": (
        ["'v' as value"],
        {"topic": "t", "kafka.value.serializer": "x"},
        "'kafka.value.serializer' is not supported",
        "'value.serializer' is not supported",
    ),
}
"""What a frame has, the options, what ours says and what theirs does."""


@pytest.mark.parametrize("case", FRAMES)
def test_what_the_connector_refuses_is_refused(spark, tidelog_broker, case):
    columns, options, ours, theirs = FRAMES[case]
    frame = spark.range(3).selectExpr(*columns)
    with pytest.raises(Exception, match=ours):
        write(frame, tidelog_broker, **options)
    with pytest.raises(Exception, match=theirs):
        write(frame, tidelog_broker, "kafka", **options)


REFUSED = {
    "an unknown option": ({"topik": "t"}, "unknown option 'topik'; there are exactlyOnce, jobName"),
    "neither true nor false": ({"exactlyOnce": "perhaps"}, "option 'exactlyOnce' must be true or false, not 'perhaps'"),
    "a prefix for nothing": ({"transactionalIdPrefix": "p"}, "means something only with 'exactlyOnce'"),
    "a transactional id": (
        {"exactlyOnce": "true", "kafka.transactional.id": "mine"},
        "'kafka.transactional.id' is not supported: it is made from the query and the task",
    ),
    "fewer acknowledgements": ({"exactlyOnce": "true", "kafka.acks": "1"}, "'kafka.acks' is not supported"),
    "an unknown option of the client": ({"kafka.bach.size": "1"}, "option 'kafka.bach.size' is not an option"),
    "no number": ({"kafka.linger.ms": "soon"}, "linger.ms' must be an integer, not 'soon'"),
    "an empty topic": ({"topic": " "}, "option 'topic' is empty"),
    "no brokers": ({"kafka.bootstrap.servers": " "}, "option 'kafka.bootstrap.servers' must be given for writing"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_option_is_refused_by_its_name(spark, tidelog_broker, case):
    options, told = REFUSED[case]
    frame = spark.range(1).selectExpr("'v' as value")
    with pytest.raises(Exception, match=told):
        write(frame, tidelog_broker, **{"topic": "t", **options})


def test_a_longer_transaction_than_brokers_allow_is_refused(spark, bootstrap):
    told = "option 'kafka.transaction.timeout.ms' is 900001, more than the brokers allow"
    options = {"topic": "t", "exactlyOnce": "true", "kafka.transaction.timeout.ms": "900001"}
    with pytest.raises(Exception, match=told):
        write(spark.range(1).selectExpr("'v' as value"), bootstrap, **options)


@pytest.mark.parametrize("once", ["false", "true"])
def test_brokers_that_do_not_answer_are_reported_on_the_driver(spark, once):
    frame = spark.range(1).selectExpr("'v' as value")
    options = {"topic": "t", "exactlyOnce": once, "kafka.max.block.ms": "1000"}
    with pytest.raises(Exception, match=r"no broker of option 'kafka.bootstrap.servers' \(127.0.0.1:1\) answered"):
        write(frame, "127.0.0.1:1", **options)


def test_a_topic_that_is_not_there_and_may_not_be_made_fails(spark, bootstrap):
    options = {"topic": "not a name", "kafka.max.block.ms": "3000"}
    with pytest.raises(Exception, match="topic not a name does not exist"):
        write(spark.range(1).selectExpr("'v' as value"), bootstrap, **options)


def test_a_topic_is_not_overwritten(spark, bootstrap):
    writer = spark.range(1).selectExpr("'v' as value").write.format("tidelog").mode("overwrite")
    with pytest.raises(Exception, match="mode overwrite is not possible: a topic is only added to"):
        writer.option("kafka.bootstrap.servers", bootstrap).option("topic", "t").save()


def test_a_partition_that_is_not_there_fails_the_query(spark, bootstrap):
    frame = spark.range(1).selectExpr("'v' as value", "7 as partition")
    with pytest.raises(Exception, match=r"column 'partition' names 7, but topic .* has partitions 0 to 2"):
        write(frame, bootstrap, topic=topic_of(bootstrap))


def test_a_job_with_a_name_is_written_once(spark, bootstrap):
    topic = topic_of(bootstrap)
    frame = spark.range(0, 100, 1, 2).selectExpr("cast(id as string) as value")
    for _ in range(2):
        write(frame, bootstrap, topic=topic, exactlyOnce="true", jobName=f"job of {topic}")
    assert sum(committed(bootstrap, topic).values()) == 100
    write(frame, bootstrap, topic=topic, exactlyOnce="true")
    assert sum(committed(bootstrap, topic).values()) == 200


def test_of_a_job_that_fails_nothing_counts(spark, bootstrap):
    topic = topic_of(bootstrap)
    failing = "if(id = 99, cast(raise_error('no') as string), cast(id as string)) as value"
    with pytest.raises(Exception, match="no"):
        write(spark.range(0, 100, 1, 2).selectExpr(failing), bootstrap, topic=topic, exactlyOnce="true")
    assert not committed(bootstrap, topic)


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_a_stream_is_written_exactly_once_and_goes_on_from_its_checkpoint(spark, bootstrap, tmp_path, mode):
    source, target = topic_of(bootstrap), topic_of(bootstrap)
    values = "cast(id as string) as key", "cast(id as string) as value"

    def run():
        reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        frame = reader.option("subscribe", source).option("startingOffsets", "earliest").load()
        if mode == "complete":
            frame = frame.groupBy("key").count().selectExpr("key", "cast(count as string) as value")
        writer = frame.select("key", "value").writeStream.format("tidelog").outputMode(mode)
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
        writer = writer.option("exactlyOnce", "true").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(240)

    write(spark.range(0, 50).selectExpr(*values), bootstrap, topic=source)
    run()
    assert sum(committed(bootstrap, target).values()) == 50
    write(spark.range(50, 80).selectExpr(*values), bootstrap, topic=source)
    run()
    run()
    assert sum(committed(bootstrap, target).values()) == (80 if mode == "append" else 130)
