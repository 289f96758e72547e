"""The exactly-once sink while brokers go: each row is there once, and nobody has to start anything again."""

import pyarrow as pa
import pytest

from tests.spark.sink_steps import messages, options, rows
from tests.spark.test_sink_kills import committed
from tidelog.client.coordinator import coordinator_from
from tidelog.shell.transport import Admin
from tidelog.spark.access import Access
from tidelog.spark.writing import prepared_transactions
from tidelog.spark.writing.driver import Driver
from tidelog.spark.writing.frame_columns import Columns
from tidelog.spark.writing.ledger import LEDGER, Reader
from tidelog.spark.writing.task import Job, prepare
from tidelog.testing import Cluster
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic


@pytest.fixture
def cluster():
    with Cluster(brokers=3, min_insync_replicas=2) as running:
        running.create_topic("out", 3)
        yield running


def expected(batch):
    return sorted(value for number in range(2) for value in rows(batch, number))


def coordinator_of(cluster, transactional_id):
    request = FindCoordinatorRequest(key=transactional_id, key_type=1, coordinator_keys=[transactional_id])
    with Admin(cluster.bootstrap) as admin:
        return coordinator_from(admin.ask(request))[1]


def test_a_broker_dies_between_the_tasks_and_the_driver(cluster):
    job = Job("query", 0)
    driver = Driver(Access(cluster.bootstrap), job.key)
    written = messages(options(cluster.bootstrap, "out"), job)
    cluster.kill(2)
    driver.commit(written, job)
    driver.close()
    assert sorted(committed(cluster.bootstrap, "out").elements()) == expected(0)


def test_the_coordinator_of_the_second_transaction_dies_when_the_first_is_ended(cluster, monkeypatch):
    job = Job("query", 0)
    driver = Driver(Access(cluster.bootstrap), job.key)
    commit = prepared_transactions.commit

    def commit_with_a_kill(admin, transactions):
        assert commit(admin, transactions[:1]) == [prepared_transactions.Fate.COMMITTED]
        cluster.kill(coordinator_of(cluster, transactions[1].id))
        return commit(admin, transactions)

    monkeypatch.setattr(prepared_transactions, "commit", commit_with_a_kill)
    driver.commit(messages(options(cluster.bootstrap, "out"), job), job)
    driver.close()
    assert sorted(committed(cluster.bootstrap, "out").elements()) == expected(0)


def test_a_leader_dies_within_a_task(cluster):
    job = Job("query", 0)
    chosen = options(cluster.bootstrap, "out")

    def batches():
        yield pa.RecordBatch.from_arrays([pa.array(rows(0, 0))], names=["value"])
        cluster.kill(1)
        yield pa.RecordBatch.from_arrays([pa.array(rows(0, 1))], names=["value"])

    driver = Driver(Access(cluster.bootstrap), job.key)
    driver.commit([prepare(batches(), chosen, Columns(key=False, headers=False, partition=False), job)], job)
    driver.close()
    assert sorted(committed(cluster.bootstrap, "out").elements()) == expected(0)


def test_the_ledger_has_three_replicas_and_what_it_says_outlives_its_leader(cluster):
    job = Job("query", 0)
    driver = Driver(Access(cluster.bootstrap), job.key)
    driver.commit(messages(options(cluster.bootstrap, "out"), job), job)
    driver.close()
    reader = Reader(Access(cluster.bootstrap), job.key)
    with Admin(cluster.bootstrap) as admin:
        (topic,) = admin.ask(MetadataRequest(topics=[MetadataRequestTopic(name=LEDGER)])).topics
    (place,) = (each for each in topic.partitions if each.partition_index == reader.place.partition)
    assert len(place.replica_nodes) == 3
    cluster.kill(place.leader_id)
    entry = reader.newest()
    reader.close()
    assert entry is not None
    assert (entry.batch, len(entry.transactions)) == (0, 2)
