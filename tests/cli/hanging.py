"""A cluster with a transaction that nobody will end, and an open one, for `tidelog transactions`."""

from contextlib import contextmanager

from tidelog.client.admin import Leader
from tidelog.errors import ApiError
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.records.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.records import TRANSACTIONAL, Record, build


def rows(result):
    assert result.code == 0, result.err
    return [line.split() for line in result.lines[1:]]


LONG_AGO = 1_600_000_000_000
PRODUCER_ID = 4_711


@contextmanager
def hanging_cluster():
    """Leaders that accept what no coordinator knows of."""
    with Cluster(brokers=1, transaction_partition_verification_enable=False) as started:
        started.create_topic("t", 2)
        hang(started.bootstrap, "t", 0)
        yield started


def hang(bootstrap, topic, partition):
    records = build(
        [Record(0, LONG_AGO, None, b"hangs")],
        attributes=TRANSACTIONAL,
        producer_id=PRODUCER_ID,
        producer_epoch=3,
        base_sequence=0,
    )
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])]
    request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=10_000, topic_data=data)
    with Admin(bootstrap) as admin:
        answer = admin.ask(request, Leader(topic, partition), newest=9)
    assert answer.responses[0].partition_responses[0].error_code == 0


@contextmanager
def open_transaction(cluster):
    """A transaction of id `app` in t-1."""
    with TransactionalProducer(cluster.bootstrap, "app", transaction_timeout_ms=600_000) as producer:
        producer.begin()
        producer.send("t", b"open", partition=1)
        producer.flush()
        yield producer
        try:
            producer.abort()
        except ApiError:
            producer.abandon()
