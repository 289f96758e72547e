"""Reading a topic with Spark once: what is read, from where to where, and what every column holds."""

import json
from datetime import UTC, datetime

import pytest

from tests.spark.records import create, delete_before, numbers, send, values
from tidelog.shell.transport import Admin
from tidelog.wire.messages.topics.metadata import MetadataRequest

CONNECTORS_COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
"""What Spark's own connector for Kafka reads."""


def load(spark, cluster, topic, **options):
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.option("subscribe", topic).options(**options).load()


@pytest.fixture(scope="module")
def counted(tides):
    """Two partitions: 0 to 9 and 100 to 104."""
    topic = create(tides, "counted", 2)
    send(tides.bootstrap, topic, numbers(0, 10), 0)
    send(tides.bootstrap, topic, numbers(100, 105), 1)
    return topic


def test_everything_is_read_where_nothing_else_is_said(spark, tides, counted):
    frame = load(spark, tides, counted)
    assert dict(frame.dtypes) == CONNECTORS_COLUMNS
    assert values(frame) == [*range(10), *range(100, 105)]


@pytest.mark.parametrize(
    ("starting", "ending", "wanted"),
    [
        ("earliest", "latest", [*range(10), *range(100, 105)]),
        ("earliest", {"0": 0, "1": 0}, []),
        ({"0": 4, "1": 2}, {"0": 7, "1": 3}, [4, 5, 6, 102]),
        ({"0": -2, "1": 5}, "latest", [*range(10)]),
        ("earliest", {"0": 1, "1": -1}, [0, *range(100, 105)]),
    ],
)
def test_offsets_are_names_or_places(spark, tides, counted, starting, ending, wanted):
    def text(given):
        return given if isinstance(given, str) else json.dumps({counted: given})

    assert values(load(spark, tides, counted, startingOffsets=text(starting), endingOffsets=text(ending))) == wanted


def test_several_topics_are_read_together(spark, tides, counted):
    another = create(tides, "another")
    send(tides.bootstrap, another, [b"1000"])
    found = load(spark, tides, f"{counted}, {another}").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in found} == {counted: 15, another: 1}


def test_each_column_holds_what_was_sent(spark, tides):
    topic = create(tides, "columns")
    send(tides.bootstrap, topic, [b"\xff\x00"], key=b"k", timestamp=1_700_000_000_123, headers=[("h", b"1")])
    send(tides.bootstrap, topic, [None], timestamp=1_700_000_000_124)
    first, second = load(spark, tides, topic, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition) == (b"k", b"\xff\x00", topic, 0)
    assert (first.offset, second.offset, first.timestampType) == (0, 1, 0)
    assert [(header.key, bytes(header.value)) for header in first.headers] == [("h", b"1")]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_times_are_those_of_the_records_or_of_the_log(spark, tides):
    moment = 1_700_000_000_123
    created = create(tides, "created")
    appended = create(tides, "appended", message_timestamp_type="LogAppendTime")
    for topic in (created, appended):
        send(tides.bootstrap, topic, [b"1"], timestamp=moment)
    found = {
        row.topic: row
        for row in load(spark, tides, f"{created},{appended}")
        .selectExpr("topic", "timestampType", "unix_millis(timestamp) as millis")
        .collect()
    }
    assert (found[created].timestampType, found[created].millis) == (0, moment)
    assert found[appended].timestampType == 1
    assert found[appended].millis > datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000


def test_records_that_were_deleted_fail_the_query_unless_it_may_lose_them(spark, tides):
    topic = create(tides, "deleted")
    send(tides.bootstrap, topic, numbers(0, 10))
    delete_before(tides.bootstrap, topic, 6)
    from_the_first = {"startingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(
        Exception, match=f"{topic}-0: option 'startingOffsets' says 2, but offsets below 6 were deleted"
    ):
        load(spark, tides, topic, **from_the_first).collect()
    assert values(load(spark, tides, topic, **from_the_first, failOnDataLoss="false")) == [6, 7, 8, 9]
    assert values(load(spark, tides, topic)) == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"startingOffsets": "yesterday"}, "option 'startingOffsets' is expected as earliest, latest or"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets'"),
        ({"startingOffsets": "latest"}, "option 'startingOffsets': a starting offset cannot be latest"),
        ({"startingOffsets": '{"COUNTED":{"0":1}}'}, "option 'startingOffsets': nothing is said of COUNTED-1"),
        ({"startingOffsets": '{"COUNTED":{"0":1,"1":1,"2":1}}'}, "COUNTED-2 is not there to be read"),
        ({"subscribePattern": "c.*"}, "only one of the options assign, subscribe, subscribePattern"),
        ({"includeHeaders": "perhaps"}, "option 'includeHeaders' must be true or false, not 'perhaps'"),
    ],
)
def test_a_wrong_option_fails_with_its_name(spark, tides, counted, options, told):
    given = {name: text.replace("COUNTED", counted) for name, text in options.items()}
    with pytest.raises(Exception, match=told.replace("COUNTED", counted)):
        load(spark, tides, counted, **given).collect()


def test_a_topic_that_is_not_there_fails_and_is_not_made(spark, tides):
    with pytest.raises(Exception, match="option 'subscribe': the cluster has no nowhere"):
        load(spark, tides, "nowhere").collect()
    with Admin(tides.bootstrap) as admin:
        assert "nowhere" not in [topic.name for topic in admin.ask(MetadataRequest(topics=None)).topics]


def test_only_the_columns_that_are_asked_for_are_read_in_that_order(spark, tides, counted):
    frame = load(spark, tides, counted, columns="offset, VALUE,partition")
    assert frame.schema.simpleString() == "struct<offset:bigint,value:binary,partition:int>"
    assert [tuple(row) for row in frame.orderBy("partition", "offset").take(2)] == [(0, b"0", 0), (1, b"1", 0)]
    assert load(spark, tides, counted, columns="timestamp").count() == 15


def test_tasks_are_cut_as_options_say(spark, tides, counted):
    def tasks(**options):
        return load(spark, tides, counted, **options).rdd.getNumPartitions()

    assert (tasks(), tasks(minPartitions="5"), tasks(maxRecordsPerPartition="3")) == (2, 5, 6)


def test_a_schema_of_ones_own_is_refused(spark, tides, counted):
    reader = spark.read.format("tidelog").schema("value string").option("kafka.bootstrap.servers", tides.bootstrap)
    with pytest.raises(Exception, match=r"the schema of this source is fixed .* option 'columns'"):
        reader.option("subscribe", counted).load().collect()
