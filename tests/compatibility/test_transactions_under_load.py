"""Many short transactions under load: the next one begins, and is aborted, while the last one's markers are written.

So does franz-go's client for transactions: it ends one (EndTxn 5), begins the next at once, and where it read nothing to
send it aborts it empty. An end that meets the markers of the one before must be told to come again, and never that its
producer is fenced. Each client reads a partition, writes what it read, with its place, in a transaction, and goes back
where it aborts one; so what is committed has each record once.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.waiting import wait_for
from tidelog.model import TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Consumer, Producer
from tidelog.testing import Cluster

CLIENTS = 3
ROUNDS = 42
ABORTED = 7
"""Every seventh round is aborted, and its records are read again."""
A_ROUND = 3
BUSY_S = 300
BUSY = f"import time; ends_at = time.monotonic() + {BUSY_S}\nwhile time.monotonic() < ends_at: pass"


@contextmanager
def busy_processes(count):
    """They take what the machine has of processors; the time limit is for a test that is killed."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture
def bootstrap():
    with Cluster(brokers=3) as cluster, busy_processes(2):
        cluster.create_topic("in", CLIENTS)
        cluster.create_topic("out", 3)
        with Producer(cluster.bootstrap) as producer:
            for client in range(CLIENTS):
                for number in range(ROUNDS * A_ROUND):
                    producer.send("in", b"%d-%d" % (client, number), partition=client)
        yield cluster.bootstrap


def abort_an_empty_one(producer):
    """Ours would ask nobody, for it knows that there is nothing to end."""
    producer.begin()
    producer._transactional._has_begun = True
    producer.abort()


def transform(bootstrap, client):
    """How many rounds were committed. ApiError where anything fatal is answered."""
    source, place, committed = TopicPartition("in", client), 0, 0
    with TransactionalProducer(bootstrap, f"etl-{client}") as producer, Consumer(bootstrap) as consumer:
        assert producer.identity[2] == 2, "the transaction version whose ends raise the epoch"
        consumer.assign([source])
        consumer.seek(source, 0)
        for number in range(ROUNDS):
            read = []
            while len(read) < A_ROUND:
                read += consumer.poll(1)
            read = read[:A_ROUND]
            producer.begin()
            for record in read:
                producer.send("out", record.value, partition=record.offset % 3)
            producer.send_offsets({source: read[-1].offset + 1}, f"group-{client}")
            if number % ABORTED == ABORTED - 1:
                producer.abort()
            else:
                producer.commit()
                place, committed = read[-1].offset + 1, committed + 1
            consumer.seek(source, place)
            abort_an_empty_one(producer)
    with Consumer(bootstrap, f"group-{client}") as member:
        wait_for(lambda: member.committed([source])[source].offset == place, "the group's place")
    return committed


def values(bootstrap):
    """All that is committed in the topic that was written, as (client, number)."""
    places = [TopicPartition("out", partition) for partition in range(3)]
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(places), []
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += [tuple(map(int, record.value.split(b"-"))) for record in consumer.poll(1)]
    return sorted(found)


def test_transactions_that_follow_each_other_at_once_are_never_fenced_and_count_once(bootstrap):
    with ThreadPoolExecutor(CLIENTS) as pool:
        committed = list(pool.map(lambda client: transform(bootstrap, client), range(CLIENTS)))
    expected = [(client, number) for client in range(CLIENTS) for number in range(committed[client] * A_ROUND)]
    assert committed == [ROUNDS - ROUNDS // ABORTED] * CLIENTS
    wait_for(lambda: values(bootstrap) == expected, "each record once")
