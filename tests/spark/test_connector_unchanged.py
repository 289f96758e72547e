"""Spark's own Kafka connector uses a Tidelog cluster as it uses Kafka: its sink, its streams in micro-batches and in
real time, through a leader that dies. What it reads is compared in `test_connector_batches` and `test_connector_streams`.
docs/clients.md has the results.
"""

import pytest

from tests.compatibility.clients.confirmation import Left
from tests.compatibility.clients.results import WORKS
from tests.spark.records import numbers, send, values
from tests.waiting import wait_for
from tidelog.testing import Cluster

WITHIN_S = 240


@pytest.fixture(scope="module")
def tides():
    with Cluster(brokers=3, min_insync_replicas=2) as running:
        yield running


def options(cluster, **more):
    return {"kafka.bootstrap.servers": cluster.bootstrap, **more}


def read(spark, cluster, topic):
    return spark.read.format("kafka").options(**options(cluster, subscribe=topic, includeHeaders="true")).load()


def test_a_batch_is_written(spark, tides):
    tides.create_topic("written", 2)
    query = """select cast(id % 2 as string) as key, cast(id as string) as value, cast(id % 2 as int) as partition,
               array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers from range(100)"""
    spark.sql(query).write.format("kafka").options(**options(tides, topic="written")).save()
    found = read(spark, tides, "written")
    assert values(found) == [*range(100)]
    first = found.where("value = '0'").first()
    assert (bytes(first.key), first.partition, [(h.key, bytes(h.value)) for h in first.headers]) == (
        b"0",
        0,
        [("h", b"1")],
    )


CODECS = ("gzip", "snappy", "lz4", "zstd")


def test_what_a_client_can_do(spark, tides, kept):
    """The features of docs/clients.md that the connector has; it has no groups that commit, and no transactions."""
    left, features = Left(tides.bootstrap, "spark"), ("records", *CODECS, "idempotence")
    left.prepare(features)
    query = """select 'k' as key, 'value of a record' as value,
               array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers"""
    for feature in features:
        topic = f"spark-{feature}"
        codec = {"kafka.compression.type": feature} if feature in CODECS else {}
        spark.sql(query).write.format("kafka").options(**options(tides, topic=topic, **codec)).save()
        (row,) = read(spark, tides, topic).collect()
        assert (bytes(row.key), bytes(row.value)) == (b"k", b"value of a record")
        assert [(header.key, bytes(header.value)) for header in row.headers] == [("h", b"1")]
        left.assert_confirmed(feature)
    kept("Spark's Kafka connector", {"version": spark.version, "features": dict.fromkeys(features, WORKS)})


def copy(spark, tides, source, target, folder, **more):
    frame = (
        spark.readStream.format("kafka").options(**options(tides, subscribe=source, startingOffsets="earliest")).load()
    )
    writer = frame.select("key", "value").writeStream.format("kafka").options(**options(tides, topic=target))
    return writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(**more).start()


def test_a_stream_is_copied_and_goes_on_from_its_checkpoint_through_a_dying_leader(spark, tides, tmp_path, kept):
    for topic in ("source", "target"):
        tides.create_topic(topic, 3)
    for partition in range(3):
        send(tides.bootstrap, "source", numbers(100 * partition, 100 * partition + 50), partition)
    query = copy(spark, tides, "source", "target", tmp_path, availableNow=True)
    assert query.awaitTermination(WITHIN_S)
    tides.kill(0)
    try:
        for partition in range(3):
            send(tides.bootstrap, "source", numbers(100 * partition + 50, 100 * partition + 100), partition)
        query = copy(spark, tides, "source", "target", tmp_path, availableNow=True)
        assert query.awaitTermination(WITHIN_S)
        assert values(read(spark, tides, "target")) == [*range(300)]
        does = "copies a topic in micro-batches, and continues from its checkpoint after a leader is killed"
        kept("Spark Structured Streaming", {"version": spark.version, "features": {does: WORKS}})
    finally:
        tides.start(0)


def test_real_time_mode_copies_what_comes_while_it_runs(spark, tides, tmp_path, kept):
    for topic in ("live", "copied"):
        tides.create_topic(topic, 2)
    frame = (
        spark.readStream.format("kafka").options(**options(tides, subscribe="live", startingOffsets="earliest")).load()
    )
    writer = frame.select("key", "value").writeStream.format("kafka").options(**options(tides, topic="copied"))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).outputMode("update")
    query = writer.trigger(realTime="5 seconds").start()
    try:
        for partition in range(2):
            send(tides.bootstrap, "live", numbers(10 * partition, 10 * partition + 10), partition)

        def is_copied():
            assert query.isActive, query.exception()
            return values(read(spark, tides, "copied")) == [*range(20)]

        wait_for(is_copied, "both partitions are copied", WITHIN_S)
        does = "copies a topic in real-time mode"
        kept("Spark's real-time mode", {"version": spark.version, "features": {does: WORKS}})
    finally:
        query.stop()
