"""Producers that a Python worker keeps from task to task: each case changes something between two tasks, and the rows of
the second are there once, with a kept producer or without."""

import gc

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from tests.spark.test_sink_kills import committed
from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.garbage import freeze_modules
from tidelog.spark.writing import producers, task
from tidelog.spark.writing.driver import Driver
from tidelog.spark.writing.frame_columns import Columns
from tidelog.spark.writing.producers import ProducerPool
from tidelog.spark.writing.task import Job, Prepared
from tidelog.spark.writing.write_options import WriteOptions
from tidelog.spark.writing.writers import batch_writer
from tidelog.testing import Cluster

COLUMNS = Columns(key=False, headers=False, partition=False)


@pytest.fixture
def cluster():
    with Cluster(brokers=3, min_insync_replicas=2) as running:
        running.create_topic("out", 3)
        yield running


@pytest.fixture
def pool(monkeypatch):
    """The producers of this process, all of them idle, whose metadata is always looked up again."""
    own = ProducerPool()
    monkeypatch.setattr(task, "_producers", own)
    monkeypatch.setattr(producers, "FRESH_MS", -1)
    yield own
    own.close()
    while task._readers:
        task._readers.popitem()[1].close()


def options(cluster, *, once, **more):
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": "out", "exactlyOnce": str(once).lower(), **more}
    return WriteOptions.of(given, streaming=True)


def batches(*values):
    return [pa.RecordBatch.from_arrays([pa.array([value.encode() for value in values])], names=["value"])]


class Query:
    """One task in each batch; `idle` are the producers that were kept after it."""

    def __init__(self, cluster, pool, *, once):
        self.options = options(cluster, once=once)
        self.pool = pool
        self.batch = 0
        self.driver = Driver(Access(cluster.bootstrap), "query") if once else None

    @property
    def job(self):
        return Job("query", self.batch)

    def task(self, given):
        if self.driver is None:
            return task.write(given, self.options, COLUMNS)
        return task.prepare(given, self.options, COLUMNS, self.job)

    def write(self, *values):
        written = self.task(batches(*values))
        if self.driver is not None:
            self.driver.commit([written], self.job)
        self.batch += 1
        (kept,) = self.idle
        return kept

    @property
    def idle(self):
        return [producer for producer, _ in self.pool._idle.values()]

    def close(self):
        if self.driver is not None:
            self.driver.close()


@pytest.fixture(params=[False, True], ids=["at least once", "exactly once"])
def query(cluster, pool, request):
    running = Query(cluster, pool, once=request.param)
    yield running
    running.close()


def in_topic(cluster):
    return {value.decode(): count for value, count in committed(cluster.bootstrap, "out").items()}


def test_one_producer_serves_all_tasks_while_each_broker_restarts(cluster, query):
    first = query.write("a")
    for broker in (0, 1, 2):
        cluster.kill(broker)
        assert query.write(f"b{broker}") is first
        cluster.start(broker)
        assert query.write(f"c{broker}") is first
    assert in_topic(cluster) == dict.fromkeys(("a", "b0", "c0", "b1", "c1", "b2", "c2"), 1)


def test_a_topic_that_was_created_again_gets_the_rows_in_all_its_partitions(cluster, query):
    first = query.write("a")
    cluster.delete_topics(["out"])
    cluster.create_topic("out", 1)
    assert query.write("b") is not first
    assert in_topic(cluster) == {"b": 1}


def test_a_producer_that_failed_is_not_kept(query):
    query.write("a")

    def failing():
        yield from batches("b")
        raise RuntimeError("the task fails")

    with pytest.raises(RuntimeError, match="the task fails"):
        query.task(failing())
    assert query.idle == []
    query.write("c")


def test_an_id_that_a_zombie_took_over_is_taken_back(cluster, pool):
    """A zombie of a task wrote with the ID meanwhile: its transaction is aborted, and what it still sends is fenced."""
    query = Query(cluster, pool, once=True)
    query.write("a")
    (name,) = [name for _, _, name in pool._idle]
    zombie = Access(cluster.bootstrap).transactional(name)
    zombie.begin()
    zombie.send("out", b"zombie")
    zombie.flush()
    query.write("b")
    zombie.send("out", b"fenced")
    with pytest.raises(ApiError) as refused:
        zombie.commit()
    zombie.abandon()
    assert refused.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    assert in_topic(cluster) == {"a": 1, "b": 1}
    query.close()


def test_tasks_of_one_batch_have_an_id_each_and_the_next_batch_has_the_same(cluster, pool):
    query = Query(cluster, pool, once=True)

    def transactions(number):
        job = Job("query", number)
        found = [task.prepare(batches(f"{number}-{each}"), query.options, COLUMNS, job) for each in range(2)]
        query.driver.commit(found, job)
        assert all(isinstance(one, Prepared) for one in found)
        return [one.transaction for one in found]

    first, second = transactions(0), transactions(1)
    assert [one.id for one in first] == [one.id for one in second]
    assert len({one.id for one in first}) == 2
    assert all(later.epoch > earlier.epoch for earlier, later in zip(first, second, strict=True))
    assert in_topic(cluster) == dict.fromkeys(("0-0", "0-1", "1-0", "1-1"), 1)
    query.close()


def test_another_cluster_at_the_same_address_gets_a_new_producer(cluster, query):
    """A producer ID of one cluster may be somebody else's in another, which would take new rows for repeated ones."""
    first = query.write("a")
    first._client.metadata.cluster_id = "the cluster before"
    assert query.write("b") is not first
    assert in_topic(cluster) == {"a": 1, "b": 1}


def test_what_is_idle_for_long_or_too_much_is_dropped(cluster, pool, monkeypatch):
    monkeypatch.setattr(producers, "MAX_IDLE_PRODUCERS", 2)
    for number in range(3):
        task.write(batches("a"), options(cluster, once=False, **{"kafka.client.id": f"client-{number}"}), COLUMNS)
    assert [key[1].client_id for key in pool._idle] == ["client-1", "client-2"]
    monkeypatch.setattr(producers, "MAX_IDLE_MS", -1)
    task.write(batches("a"), options(cluster, once=False), COLUMNS)
    assert len(pool._idle) == 1


def test_a_worker_does_not_search_its_modules_for_garbage(cluster, pool):
    """Spark's worker collects garbage after each task."""
    freeze_modules.cache_clear()
    schema = StructType([StructField("value", BinaryType())])
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": "out"}
    writer = batch_writer(given, schema, overwrite=False)
    gc.unfreeze()
    freeze_modules.cache_clear()
    try:
        writer.write(iter(batches("a")))
        assert gc.get_freeze_count() > len(gc.get_objects())
    finally:
        gc.unfreeze()
    assert in_topic(cluster) == {"a": 1}
