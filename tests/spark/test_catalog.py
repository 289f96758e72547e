"""The format in places where Spark looks it up by other ways: tables of its catalog, views, and new threads of Python."""

from threading import Thread

import pytest

from tests.spark.records import create, numbers, send, unique, values
from tidelog.spark import activate


@pytest.fixture(scope="module")
def topic(tides):
    topic = create(tides, "catalog", 2)
    send(tides.bootstrap, topic, numbers(0, 5), 1)
    return topic


def options(tides, topic, **more):
    given = {"kafka.bootstrap.servers": tides.bootstrap, "subscribe": topic, **more}
    listed = ", ".join(f"'{name}' '{text}'" for name, text in given.items())
    return f"OPTIONS ({listed})"


@pytest.fixture
def table(spark):
    name = unique("table").replace("-", "_")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_a_table_of_the_catalog_is_read_in_batches_and_as_a_stream(spark, tides, topic, table, tmp_path):
    spark.sql(f"CREATE TABLE {table} USING tidelog {options(tides, topic, startingOffsets='earliest')}")
    assert values(spark.table(table)) == [0, 1, 2, 3, 4]
    assert values(spark.sql(f"SELECT value FROM {table} WHERE offset > 2")) == [3, 4]
    assert spark.sql(f"SELECT * FROM {table} LIMIT 0").columns == [
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType",
    ]  # fmt: skip
    name = unique("sink").replace("-", "_")
    writer = spark.readStream.table(table).writeStream.format("memory").queryName(name)
    writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    assert values(spark.table(name)) == [0, 1, 2, 3, 4]


def test_a_table_has_the_columns_that_its_options_choose(spark, tides, topic, table):
    spark.sql(
        f"CREATE TABLE {table} USING tidelog {options(tides, topic, columns='offset,value,headers', includeHeaders='true')}"
    )
    assert [tuple(row) for row in spark.table(table).collect()] == [(n, b"%d" % n, None) for n in range(5)]


def test_wrong_options_of_a_table_are_named_when_it_is_created(spark, tides, topic, table):
    for more, told in (({"startOffsets": "earliest"}, "unknown option 'startoffsets'"),
                       ({"kafka.sasl.jaas.config": "x"}, "'kafka.sasl.jaas.config' cannot be stored in a catalog")):  # fmt: skip
        with pytest.raises(Exception, match=told):
            spark.sql(f"CREATE TABLE {table} USING tidelog {options(tides, topic, **more)}")
    assert not spark.catalog.tableExists(table)


def test_a_view_is_read(spark, tides, topic):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW seen USING tidelog {options(tides, topic)}")
    assert values(spark.table("seen")) == [0, 1, 2, 3, 4]


def test_a_new_thread_writes_once_the_session_is_active_in_it(spark, tides, topic):
    written, failures = create(tides, "written", 1), []

    def write(*, is_active):
        try:
            if is_active:
                activate(spark)
            frame = spark.read.format("tidelog").option("kafka.bootstrap.servers", tides.bootstrap)
            writer = frame.option("subscribe", topic).load().select("value").write.format("tidelog").mode("append")
            writer.option("kafka.bootstrap.servers", tides.bootstrap).option("topic", written).save()
        except Exception as error:  # noqa: BLE001  Spark's; what it says is looked at below
            failures.append(str(error))

    for is_active in (False, True):
        thread = Thread(target=write, kwargs={"is_active": is_active})
        thread.start()
        thread.join()
    assert len(failures) == 1
    assert "DATA_SOURCE_NOT_FOUND" in failures[0], "Spark's own limit; if it is gone, so can `activate`"
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", tides.bootstrap)
    assert values(reader.option("subscribe", written).load()) == [0, 1, 2, 3, 4]
