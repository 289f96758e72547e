"""The streaming reader as Spark calls it, without Spark: what was read is gone, not what it was, or not there yet."""

from contextlib import contextmanager
from itertools import count

import pytest

from tests.spark.records import add_partitions, create, delete_before, delete_topic, numbers, send, unique
from tests.waiting import wait_for
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.shell.transactions import TransactionalProducer
from tidelog.shell.transport import Consumer
from tidelog.spark.options import BadOption
from tidelog.spark.reading import task
from tidelog.spark.reading.data_loss import DataLost
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.stream import StreamReader
from tidelog.testing import Cluster


class Query:
    """What Spark does with a reader: `batch` reads one and remembers where it ended."""

    def __init__(self, bootstrap, start=None, **options):
        given = {
            "kafka.bootstrap.servers": bootstrap,
            "startingOffsets": "earliest",
            "fetchOffset.retryIntervalMs": "10",
        }
        self.reader = StreamReader(ReadOptions.of({**given, **options}, streaming=True))
        try:
            self.start = start or self.reader.initialOffset()
        except BaseException:
            self.close()
            raise

    def batch(self):
        end = self.reader.latestOffset(self.start, self.reader.getDefaultReadLimit())
        parts = self.reader.partitions(self.start, end)
        found = [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]
        self.start = end
        return sorted(int(row["value"]) for row in found)

    def close(self):
        self.reader.stop()
        task.kept_consumers.close()


@contextmanager
def reading(bootstrap, start=None, **options):
    query = Query(bootstrap, start, **options)
    try:
        yield query
    finally:
        query.close()


def remake(cluster, name, values):
    delete_topic(cluster.bootstrap, name)

    def is_made():
        try:
            cluster.create_topic(name)
        except ApiError:
            return False
        return True

    wait_for(is_made, "every broker has let the name go")
    send(cluster.bootstrap, name, values)


def test_a_topic_that_was_made_anew_is_known_by_its_id_whatever_its_length(tides):
    topic = create(tides, "remade")
    send(tides.bootstrap, topic, numbers(0, 5))
    with reading(tides.bootstrap, subscribe=topic) as strict:
        assert strict.batch() == [0, 1, 2, 3, 4]
        remake(tides, topic, numbers(10, 20))
        with pytest.raises(
            DataLost, match=rf"topic {topic} was deleted and created again .* 'failOnDataLoss' to false"
        ):
            strict.batch()
        with reading(tides.bootstrap, strict.start, subscribe=topic, failOnDataLoss="false") as loose:
            assert loose.batch() == [*range(10, 20)]
            assert loose.batch() == []


def test_a_task_planned_before_its_topic_was_made_anew_does_not_read_the_new_one(tides):
    topic = create(tides, "swapped")
    send(tides.bootstrap, topic, numbers(0, 5))
    with reading(tides.bootstrap, subscribe=topic) as query:
        (part,) = query.reader.partitions(query.start, query.reader.latestOffset(query.start, None))
        assert sum(batch.num_rows for batch in query.reader.read(part)) == 5
        remake(tides, topic, numbers(10, 20))
        with pytest.raises(DataLost, match=f"topic {topic} was deleted and created again"):
            list(query.reader.read(part))


def test_a_topic_that_goes_is_reported_and_the_others_are_read_on(tides):
    stays, goes = create(tides, "stays"), create(tides, "goes")
    both = f"{stays},{goes}"
    for name in (stays, goes):
        send(tides.bootstrap, name, numbers(0, 2))
    with reading(tides.bootstrap, subscribe=both) as strict:
        assert strict.batch() == [0, 0, 1, 1]
        delete_topic(tides.bootstrap, goes)
        send(tides.bootstrap, stays, numbers(2, 3))
        with pytest.raises(DataLost, match=f"partitions {goes}-0 are gone"):
            strict.batch()
        with reading(tides.bootstrap, strict.start, subscribe=both, failOnDataLoss="false") as loose:
            assert loose.batch() == [2]
        with reading(tides.bootstrap, strict.start, subscribe=both) as bounded:
            bounded.reader.prepareForTriggerAvailableNow()
            with pytest.raises(DataLost, match=f"partitions {goes}-0 are gone"):
                bounded.batch()


def test_a_log_that_was_cut_back_is_known_by_its_epochs():
    with Cluster(brokers=2, unclean_leader_election_enable="true", min_insync_replicas=1) as cluster:
        cluster.create_topic("cut")
        send(cluster.bootstrap, "cut", numbers(0, 10))
        with Consumer(cluster.bootstrap) as consumer:
            consumer.partitions_of("cut")
            leader = consumer._client.metadata.leader(TopicPartition("cut", 0))
        with reading(cluster.bootstrap, subscribe="cut") as strict:
            assert strict.batch() == [*range(10)]
            cluster.kill(1 - leader)
            send(cluster.bootstrap, "cut", numbers(10, 15))
            assert strict.batch() == [*range(10, 15)]
            cluster.kill(leader)
            cluster.start(1 - leader)
            send(cluster.bootstrap, "cut", numbers(20, 30))  # more than were lost: the end alone tells nothing
            with pytest.raises(DataLost, match=r"cut-0 was read up to 15, but its log was cut back to 10"):
                strict.batch()
            with reading(cluster.bootstrap, strict.start, subscribe="cut", failOnDataLoss="false") as loose:
                assert loose.batch() == [*range(20, 30)]


def test_partitions_and_topics_that_come_while_a_query_runs(tides):
    stem = unique("grow")
    one, two, three = (f"{stem}-{letter}" for letter in "abc")
    tides.create_topic(one)
    send(tides.bootstrap, one, numbers(0, 2))
    with reading(tides.bootstrap, subscribePattern=f"{stem}-.*") as query:
        assert query.batch() == [0, 1]
        add_partitions(tides.bootstrap, one, 2)
        send(tides.bootstrap, one, numbers(10, 12), 1)
        tides.create_topic(two)
        send(tides.bootstrap, two, numbers(20, 22))
        assert query.batch() == [10, 11, 20, 21]
        tides.create_topic(three)
        send(tides.bootstrap, three, numbers(30, 34))
        delete_before(tides.bootstrap, three, 2)
        with pytest.raises(DataLost, match=f"{three}-0 is new and starts at 2 instead of 0"):
            query.batch()


def test_a_batch_waits_for_its_least_number_until_the_delay_is_over(tides):
    topic = create(tides, "slow")
    send(tides.bootstrap, topic, numbers(0, 1))
    with reading(tides.bootstrap, subscribe=topic, minOffsetsPerTrigger="3") as query:
        assert query.batch() == [0]  # the first one does not wait
        send(tides.bootstrap, topic, numbers(1, 3))
        assert query.batch() == []
        query.reader._last_batch_ms -= 15 * 60_000
        assert query.batch() == [1, 2]
        send(tides.bootstrap, topic, numbers(3, 6))
        assert query.batch() == [3, 4, 5]
        send(tides.bootstrap, topic, numbers(6, 7))
        query.reader.prepareForTriggerAvailableNow()
        assert query.batch() == [6]


def test_a_group_sees_how_far_the_query_is(tides):
    topic, group = create(tides, "shown", 2), unique("dashboards")
    send(tides.bootstrap, topic, numbers(0, 3), 1)
    with reading(tides.bootstrap, subscribe=topic, commitGroup=group) as query:
        assert query.batch() == [0, 1, 2]
        assert query.batch() == []  # what was done is shown without anything new to do
        with Consumer(tides.bootstrap, group=group) as consumer:
            found = consumer.committed([(topic, 0), (topic, 1)])
            assert {place.partition: committed.offset for place, committed in found.items()} == {0: 0, 1: 3}
            send(tides.bootstrap, topic, numbers(3, 4), 1)
            query.batch()
            consumer.subscribe([topic])
            wait_for(lambda: consumer.poll() or consumer.assignment, "the consumer is a member")
            with pytest.raises(BadOption, match=rf"'commitGroup': .* group '{group}'.* no consumer is a member of"):
                query.reader.commit(query.start)


def test_holes_of_transactions_are_passed_over_and_nothing_behind_an_open_one_is_read(tides):
    topic = create(tides, "holes")
    with TransactionalProducer(tides.bootstrap, topic) as producer:
        committed = {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": "2"}
        for commits in (True, False, True):
            producer.begin()
            producer.send(topic, b"%d" % commits, partition=0)
            producer.flush()  # what is not sent yet is not aborted but dropped
            (producer.commit if commits else producer.abort)()
        producer.begin()
        producer.send(topic, b"7", partition=0)
        producer.flush()
        with reading(tides.bootstrap, subscribe=topic, **committed) as query:
            assert [query.batch() for _ in range(4)] == [[1], [], [1], []]
            producer.commit()
            assert wait_for(query.batch, "the marker is written, which comes after the answer") == [7]


def test_holes_of_compaction_are_passed_over():
    options = {"min_cleanable_dirty_ratio": "0.01", "segment_ms": 200, "delete_retention_ms": 0}
    with Cluster(brokers=1, log_cleaner_backoff_ms=50) as cluster:
        cluster.create_topic("compacted", cleanup_policy="compact", **options)
        sent = count()

        def compacted():
            for key in (b"a", b"b"):
                last = next(sent)
                send(cluster.bootstrap, "compacted", numbers(last, last + 1), key=key)
            with reading(cluster.bootstrap, subscribe="compacted", maxRecordsPerPartition="3") as query:
                found = query.batch()
            assert found[-2:] == [last - 1, last]
            return len(found) <= last

        wait_for(compacted, "something is compacted")
