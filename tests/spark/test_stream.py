"""Reading a topic with Spark's Structured Streaming: micro-batches, checkpoints, growing topics and dying leaders."""

import threading
from pathlib import Path

import pytest

from tests.spark.records import add_partitions, create, in_sync, numbers, send, values
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.stream import StreamReader
from tidelog.testing import Cluster

WITHIN_S = 240


class Stream:
    """One query that may be started again: a Parquet table and its checkpoint in a folder."""

    def __init__(self, spark, folder: Path, bootstrap: str, topic: str, **options: str) -> None:
        self._spark = spark
        self._table = str(folder / "table")
        reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
        frame = reader.option("subscribe", topic).options(**options).load()
        self._writer = frame.writeStream.format("parquet").option("path", self._table)
        self._writer = self._writer.option("checkpointLocation", str(folder / "checkpoint"))

    def start(self):
        return self._writer.start()

    def run(self) -> list[int]:
        """Everything there is now; the rows of each micro-batch that had any."""
        query = self._writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(WITHIN_S)
            return [rows for progress in query.recentProgress if (rows := progress["numInputRows"])]
        finally:
            query.stop()

    @property
    def values(self) -> list[int]:
        return values(self._spark.read.parquet(self._table))


def test_available_now_reads_in_limited_batches_and_a_second_run_only_what_is_new(spark, tides, tmp_path):
    topic = create(tides, "limited", 2)
    send(tides.bootstrap, topic, numbers(0, 20), 0)
    send(tides.bootstrap, topic, numbers(20, 25), 1)
    stream = Stream(spark, tmp_path, tides.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    batches = stream.run()
    assert (sum(batches), max(batches)) == (25, 10)
    assert stream.values == [*range(25)]

    send(tides.bootstrap, topic, numbers(25, 32), 1)
    assert stream.run() == [7]
    assert stream.values == [*range(32)]
    assert stream.run() == []


def test_partitions_that_are_added_between_two_runs_are_read_from_their_start(spark, tides, tmp_path):
    topic = create(tides, "growing", 1)
    send(tides.bootstrap, topic, numbers(0, 5), 0)
    stream = Stream(spark, tmp_path, tides.bootstrap, topic, startingOffsets="earliest")
    assert stream.run() == [5]
    add_partitions(tides.bootstrap, topic, 3)
    for partition in range(3):
        send(tides.bootstrap, topic, numbers(10 * (partition + 1), 10 * (partition + 1) + 2), partition)
    assert sum(stream.run()) == 6
    assert stream.values == [0, 1, 2, 3, 4, 10, 11, 20, 21, 30, 31]


def test_a_stream_starts_at_the_end_where_nothing_else_is_said(spark, tides, tmp_path):
    topic = create(tides, "ended")
    send(tides.bootstrap, topic, numbers(0, 5))
    query = Stream(spark, tmp_path, tides.bootstrap, topic)
    running = query.start()
    try:
        running.processAllAvailable()
        send(tides.bootstrap, topic, numbers(5, 8))
        running.processAllAvailable()
    finally:
        running.stop()
    assert query.values == [5, 6, 7]


def test_a_stream_with_a_wrong_option_ends_with_its_name(spark, tides, tmp_path):
    with pytest.raises(Exception, match="option 'maxOffsetsPerTrigger' must be an integer of at least 1, not 'many'"):
        Stream(spark, tmp_path, tides.bootstrap, "any", maxOffsetsPerTrigger="many").run()


def filled(cluster: Cluster, topic: str, each: int) -> None:
    """Three partitions with so many numbers each, from 0 on."""
    cluster.create_topic(topic, 3)
    for partition in range(3):
        send(cluster.bootstrap, topic, numbers(partition * each, (partition + 1) * each), partition)


def test_a_leader_dies_between_latest_offset_and_read():
    with Cluster(brokers=3, min_insync_replicas=2) as cluster:
        filled(cluster, "moved", 100)
        options = ReadOptions.of({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "moved"}, streaming=True)
        reader = StreamReader(options)
        end = reader.latestOffset({}, reader.getDefaultReadLimit())
        cluster.kill(0)
        found = [batch for part in reader.partitions({}, end) for batch in reader.read(part)]
        cluster.kill(1)
        cluster.start(0)
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
        reader.stop()
    assert sorted(int(value) for batch in found for value in batch["value"].to_pylist()) == [*range(300)]


def test_a_stream_reads_through_one_dying_leader_after_another(spark, tmp_path):
    with Cluster(brokers=3, min_insync_replicas=2) as cluster:
        filled(cluster, "shaken", 2_000)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1500"}
        stream = Stream(spark, tmp_path, cluster.bootstrap, "shaken", **options)
        query = stream.start()
        shaking = Shaking(cluster, query)
        shaking.start()
        sent, goes_on = 6_000, True
        try:
            while goes_on:
                goes_on = shaking.is_alive() and shaking.kills < 3
                send(cluster.bootstrap, "shaken", numbers(sent, sent + 300), sent // 300 % 3)
                sent += 300
                query.processAllAvailable()
        finally:
            shaking.end()
            query.stop()
        assert stream.values == [*range(sent)]
        assert shaking.kills >= 3


class Shaking(threading.Thread):
    """Kills one broker after another and starts it again, a micro-batch apart. The next one dies when that is in sync
    again: of three replicas one may be down."""

    def __init__(self, cluster: Cluster, query) -> None:
        super().__init__()
        self.kills = 0
        self._cluster = cluster
        self._query = query
        self._ended = threading.Event()

    @property
    def _batch(self) -> int:
        progress = self._query.lastProgress
        return progress["batchId"] if progress else -1

    def run(self) -> None:
        while not self._ended.is_set():
            number, batch = self.kills % 3, self._batch
            self._cluster.kill(number)
            self.kills += 1
            while not self._ended.wait(0.05) and self._batch == batch:
                pass
            self._cluster.start(number)
            in_sync(self._cluster.bootstrap, "shaken", 3)

    def end(self) -> None:
        self._ended.set()
        self.join()
