"""The mirror through SIGKILL of its driver and of a broker: the copy is the source, and groups find their place in it."""

import json

import pandas as pd
import pytest

from tests.spark.flights_data import MALFORMED
from tests.spark.kills import BATCH, PARTITIONS, disturbed, fill, same
from tests.spark.records import send, unique
from tests.spark.test_pipelines_mirror import home_of, plain, read
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin, Consumer
from tidelog.spark.pipelines.offset_translation import committed

pytestmark = pytest.mark.timeout(900)
COLUMNS = ["partition", "key", "value", "headers"]
FIRST, SECOND = unique("first"), unique("second")
COMMITTED = {FIRST: 5, SECOND: 1000}
"""By group, in each partition of the source."""


def table(topic, place_of):
    """Records as a table, each with its place at home."""
    rows = [(*plain(record), *place_of(record)) for records in topic.values() for record in records]
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "offset", "timestamp"])
    return frame.assign(headers=frame.headers.map(repr))


def left(topic, place, offset):
    return [record.value for record in topic[place] if record.offset >= offset]


def test_the_mirror_ends_with_a_copy(spark, cluster, tmp_path):
    topic = fill(cluster, [*MALFORMED, None, json.dumps({"a": 1}).encode()])
    for group, offset in COMMITTED.items():
        with Consumer(cluster.bootstrap, group) as consumer:
            consumer.commit({TopicPartition(topic, number): offset for number in range(PARTITIONS)})
    options = {
        "topics": topic,
        "to": cluster.bootstrap,
        "prefix": "copy.",
        "batch": BATCH,
        "groups": f"{FIRST}|{SECOND}",
    }
    with disturbed(spark, cluster, tmp_path, "mirror", 1, **options) as driver:
        send(cluster.bootstrap, topic, [*MALFORMED], 1)
        assert "copy: batch" in driver.finish_alone(), "there was still something to copy"
    home, away = read(cluster.bootstrap, topic), read(cluster.bootstrap, f"copy.{topic}")
    wanted = table(home, lambda record: (record.offset, record.timestamp))
    same(table(away, home_of), wanted, ["partition", "offset"])
    with Admin(cluster.bootstrap) as admin:
        for group, offset in COMMITTED.items():
            places = committed(admin, group)
            for place in home:
                copy = TopicPartition(f"copy.{topic}", place.partition)
                assert left(away, copy, places[copy]) == left(home, place, offset)
