"""Tidelog's source beside Spark's own Kafka connector over two runs of one query: between them partitions are added,
records go, a topic goes or is another. Topics with holes that compaction made. On Tidelog and on a real Kafka."""

from itertools import count

import pytest

from tests.spark import beside
from tests.spark.records import add_partitions, delete_before, delete_topic, make_topic, numbers, send, values
from tests.waiting import wait_for
from tidelog.errors import ApiError
from tidelog.shell.transport import Consumer

WITHIN_S = 240
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "200"}
LOST = {"tidelog": "'failOnDataLoss' to false", "kafka": "(?i)data.?loss|may have been lost"}
"""What each says where records are gone that a query should have read."""


def filled(bootstrap, sent):
    name = make_topic(bootstrap)
    send(bootstrap, name, sent)
    return name


class Query:
    """One query of one of the two, started again and again from its checkpoint; its table is Parquet."""

    def __init__(self, spark, source, bootstrap, folder, **options):
        self._spark, self._source, self._folder = spark, source, folder / source
        self._options = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}

    def read_by(self, source):
        """From now on, in the same folder."""
        self._source = source

    def run(self, **more):
        """Everything there is now; the values of the table."""
        options = {"fetchOffset.numRetries": "1", **self._options, **more}
        frame = self._spark.readStream.format(self._source).options(**options).load()
        writer = frame.writeStream.format("parquet").option("path", str(self._folder / "table"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(WITHIN_S)
        finally:
            query.stop()
        return values(self._spark.read.parquet(str(self._folder / "table")))


@pytest.fixture
def queries(spark, bootstrap, tmp_path):
    def make(under=".", **options):
        folder = tmp_path / under
        return {source: Query(spark, source, bootstrap, folder, **options) for source in ("tidelog", "kafka")}

    return make


def test_a_checkpoint_of_the_connector_continues_in_ours_and_not_the_reverse(spark, bootstrap, tmp_path):
    topic = filled(bootstrap, numbers(0, 5))
    query = Query(spark, "kafka", bootstrap, tmp_path, subscribe=topic)
    assert query.run() == [0, 1, 2, 3, 4]
    send(bootstrap, topic, numbers(5, 8))
    query.read_by("tidelog")
    assert query.run() == list(range(8))
    send(bootstrap, topic, numbers(8, 9))
    query.read_by("kafka")
    with pytest.raises(Exception, match=r"Expected e\.g\. "):
        query.run()
    query.read_by("tidelog")
    assert query.run() == list(range(9))


def test_partitions_that_are_added_are_read_by_both_from_their_start(bootstrap, queries):
    topic = filled(bootstrap, numbers(0, 5))
    both = queries(subscribe=topic)
    assert [each.run() for each in both.values()] == [[0, 1, 2, 3, 4]] * 2
    add_partitions(bootstrap, topic, 2)
    send(bootstrap, topic, numbers(5, 7), 0)
    send(bootstrap, topic, numbers(10, 13), 1)
    assert [each.run() for each in both.values()] == [[0, 1, 2, 3, 4, 5, 6, 10, 11, 12]] * 2


def test_records_that_went_before_they_were_read_fail_both_unless_they_may(bootstrap, queries):
    topic = filled(bootstrap, numbers(0, 5))
    both = queries(subscribe=topic)
    assert [each.run() for each in both.values()] == [[0, 1, 2, 3, 4]] * 2
    send(bootstrap, topic, numbers(5, 10))
    delete_before(bootstrap, topic, 7)
    for source, query in both.items():
        with pytest.raises(Exception, match=LOST[source]):
            query.run()
    assert [each.run(failOnDataLoss="false") for each in both.values()] == [[0, 1, 2, 3, 4, 7, 8, 9]] * 2


def test_a_topic_that_was_made_anew_and_is_shorter_fails_both(bootstrap, queries):
    topic = filled(bootstrap, numbers(0, 5))
    both = queries(subscribe=topic)
    assert [each.run() for each in both.values()] == [[0, 1, 2, 3, 4]] * 2
    delete_topic(bootstrap, topic)
    make_topic(bootstrap, name=topic)
    send(bootstrap, topic, numbers(20, 22))
    for source, query in both.items():
        with pytest.raises(Exception, match=LOST[source]):
            query.run()
    assert both["tidelog"].run(failOnDataLoss="false") == [0, 1, 2, 3, 4, 20, 21]


def test_a_topic_that_goes_fails_both_and_ours_goes_on_where_it_may(bootstrap, queries):
    stays, goes = filled(bootstrap, numbers(0, 3)), filled(bootstrap, numbers(10, 12))
    both = queries(subscribe=f"{stays},{goes}")
    assert [each.run() for each in both.values()] == [[0, 1, 2, 10, 11]] * 2
    send(bootstrap, stays, numbers(3, 5))
    delete_topic(bootstrap, goes)
    told = {"tidelog": f"partitions {goes}-0 are gone, .*'failOnDataLoss'", "kafka": "UnknownTopicOrPartition"}
    for source, query in both.items():
        with pytest.raises(Exception, match=told[source]):
            query.run()
    assert both["tidelog"].run(failOnDataLoss="false") == [0, 1, 2, 3, 4, 10, 11]
    with pytest.raises(Exception, match=told["kafka"]):
        both["kafka"].run(failOnDataLoss="false")


def test_holes_that_compaction_made_are_passed_over_by_both(spark, bootstrap, queries):
    topic = make_topic(bootstrap, **COMPACTED)
    sent = count()

    def is_compacted():
        for key in (b"a", b"b", b"a"):
            last = next(sent)
            send(bootstrap, topic, numbers(last, last + 1), key=key)
        return len(there(bootstrap, topic)) <= last

    wait_for(is_compacted, f"{topic} is compacted")
    options = {"subscribe": topic, "maxRecordsPerPartition": "4"}
    found, streamed, before, rounds = {}, [], [], count()
    while not found or before != there(bootstrap, topic):  # it was still being compacted
        before = there(bootstrap, topic)
        found = {source: beside.rows(beside.batch(spark, source, bootstrap, options)) for source in LOST}
        streamed = [each.run() for each in queries(f"round-{next(rounds)}", **options).values()]
    assert found["tidelog"] == found["kafka"]
    assert [bytes(row.value) for row in found["tidelog"]] == before
    assert streamed == [[int(value) for value in before]] * 2


def there(bootstrap, topic):
    """The values that a consumer finds."""
    with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets(consumer.partitions_of(topic))
        consumer.assign(ends)
        found = []
        while any(consumer.position(place) < end for place, end in ends.items()):
            try:
                found += [record.value for record in consumer.poll(0.1)]
            except ApiError:
                continue  # a segment is being replaced
    return found
