"""A sound cluster that is audited while transactions write to it, aborted ones too, while it compacts and deletes: nothing
is broken, whichever way it is read. `TIDELOG_AUDIT_ROUNDS` makes it longer."""

import os
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from tidelog.audit.io import cluster, fetching, run
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster

ROUNDS = int(os.environ.get("TIDELOG_AUDIT_ROUNDS", "2"))
BROKER = {
    "log_cleaner_backoff_ms": 100,
    "log_retention_check_interval_ms": 200,
    "replica_fetch_wait_max_ms": 50,
}
SMALL = {"internal_segment_bytes": 20_000, "file_delete_delay_ms": 1_000}


def write(bootstrap, stop, count):
    """Transactions of a few records each, every third aborted, until it is to stop."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "busy", "linger.ms": 0})
    producer.init_transactions(30)
    while not stop.is_set():
        producer.begin_transaction()
        for place in range(20):
            value = b"%d" % len(count) * 200
            producer.produce("deleted", value, key=b"%d" % place)
            producer.produce("compacted", value, key=b"%d" % (place % 7))
        producer.flush(30)
        if len(count) % 3:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        count.append(None)


@pytest.fixture
def busy():
    with Cluster(brokers=3, **BROKER) as tides:
        tides.create_topic("deleted", 2, retention_bytes=40_000, **SMALL)
        tides.create_topic("compacted", 2, cleanup_policy="compact", min_cleanable_dirty_ratio=0, **SMALL)
        stop, count = Event(), []
        writer = Thread(target=write, args=(tides.bootstrap, stop, count))
        writer.start()

        def more(transactions=20):
            until = len(count) + transactions
            while len(count) < until:
                assert writer.is_alive()
                stop.wait(0.01)

        yield tides, more
        stop.set()
        writer.join()


def audited(bootstrap, **way):
    reached = cluster.ClusterAccess(bootstrap, **way)
    try:
        with Admin(bootstrap) as admin:

            def look(topics):
                return run.audit(cluster.plan(admin, reached, topics=topics, acknowledged={}))

            return run.confirmed(look([]), look)
    finally:
        fetching.close()


def test_nothing_is_broken_while_it_is_written_to(busy):
    tides, more = busy
    starts, number = set(), 0
    while number < ROUNDS or len(starts) <= 2:  # until segments were deleted meanwhile
        number += 1
        more()
        for way in ({"from_folders": False}, {"from_folders": True}, {"piece_bytes": 1}):
            report = audited(tides.bootstrap, **way)
            assert [each for each in report.findings if each.is_broken] == [], (number, way)
            starts |= {view.replicas[0].start for view in report.partitions if view.topic == "deleted"}
