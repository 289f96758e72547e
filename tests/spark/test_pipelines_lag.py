"""Lags are the ends less what is committed, at each look; and a group that stands still is told once, and once when it
goes on."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.spark.flights_data import TICK
from tests.spark.records import create, numbers, send, unique
from tests.spark.test_pipelines_mirror import read
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.access import Access
from tidelog.spark.pipelines import lag
from tidelog.spark.pipelines.end_offsets import EndsReader
from tidelog.spark.pipelines.group_lag import LAG, RESUMED, STOPPED, PartitionGroups
from tidelog.spark.pipelines.lag import PIPELINE
from tidelog.spark.pipelines.plan import Plan, WrongOption, milliseconds
from tidelog.spark.pipelines.running import run
from tidelog.spark.pipelines.session import STATE_STORE

AFTER = 10
STEPS = some.lists(some.tuples(some.sampled_from(["commit", "produce", "delete", "look"]), some.integers(0, 9)))


@given(STEPS)
def test_alerts_alternate_and_are_true(steps):
    """Against the plain history: a group has stopped where all looks of the last `AFTER` ms saw it at one place, with
    something to read."""
    watched, end, at, committed, told, looks = PartitionGroups(), 0, 0, None, [], []
    for step, amount in steps:
        at += amount
        watched = PartitionGroups.from_text(watched.to_text())
        if step == "produce":
            end += amount
        elif step == "commit":
            committed = min(end, (committed or 0) + amount)
            told += watched.commit("g", committed, at)
        elif step == "delete":
            committed = None
            told += watched.commit("g", None, at)
        else:
            found = [*watched.look(end, at, AFTER)]
            told += found
            assert [(each.committed, each.lag) for each in found if each.kind == LAG] == (
                [] if committed is None else [(committed, end - committed)]
            )
            looks.append(at)
    alerts = [each for each in told if each.kind != LAG]
    kinds = [each.kind for each in alerts]
    assert RESUMED not in kinds[:1]
    assert all(kind != RESUMED or before == STOPPED for before, kind in pairwise(kinds))
    assert all(each.at - each.since >= AFTER and each.lag > 0 for each in alerts if each.kind == STOPPED)


def test_a_group_stops_and_goes_on():
    watched = PartitionGroups()
    assert [*watched.commit("g", 5, 0)] == []
    kinds = lambda found: [each.kind for each in found]  # noqa: E731
    assert kinds(watched.look(9, 100, AFTER)) == [LAG]
    assert kinds(watched.look(9, 109, AFTER)) == [LAG]
    assert kinds(watched.look(9, 110, AFTER)) == [LAG, STOPPED]
    assert kinds(watched.look(9, 999, AFTER)) == [LAG], "once is enough"
    assert kinds(watched.commit("g", 6, 1000)) == [RESUMED]
    assert kinds(watched.look(9, 1009, AFTER)) == [LAG]
    assert kinds(watched.commit("g", 9, 1009)) == []
    assert kinds(watched.look(9, 5000, AFTER)) == [LAG], "nothing to read is no standstill"


def test_a_record_that_is_no_commit_is_none():
    assert lag.decode_commit(None, b"", 0, 0) is None
    assert lag.decode_commit(b"\x00\x02\x00\x01g", TICK, 0, 0) is None


@pytest.mark.parametrize(("text", "wanted"), [("5 minutes", 300_000), ("1 second", 1000), ("2hours", 7_200_000)])
def test_times_are_read(text, wanted):
    assert milliseconds("stopped-after", text) == wanted


@pytest.mark.parametrize("text", ["soon", "5", "minutes", "5 years"])
def test_other_times_are_refused(text):
    with pytest.raises(WrongOption, match="option 'stopped-after' is a time like '5 minutes'"):
        milliseconds("stopped-after", text)


def test_a_batch_of_ends_is_reported_again_as_it_was(tides):
    topic = create(tides, "ends", 2)
    send(tides.bootstrap, topic, numbers(0, 3), 1)
    reader = EndsReader(Access(tides.bootstrap), f".*{topic[1:]}")
    offset = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), None)))
    send(tides.bootstrap, topic, numbers(0, 3), 1)
    (part,) = reader.partitions(reader.initialOffset(), offset)
    assert [row[:3] for row in reader.read(part)] == [(topic, 0, 0), (topic, 1, 3)]
    assert reader.partitions(offset, offset) == []


def test_groups_are_watched(spark, conf, tides, tmp_path):
    conf("spark.sql.streaming.stateStore.providerClass", STATE_STORE)
    topic, slow, quick = create(tides, "watched", 2), unique("slow"), unique("quick")
    for partition, count in enumerate((10, 20)):
        send(tides.bootstrap, topic, numbers(0, count), partition)
    options = {"topics": topic, "groups": f"{slow}|{quick}", "stopped-after": "1 millisecond"}
    plan = Plan(tides.bootstrap, tmp_path, PIPELINE.complete(options), once=True)

    def commit(name, *offsets):
        with Consumer(tides.bootstrap, name) as consumer:
            consumer.commit({TopicPartition(topic, partition): offset for partition, offset in enumerate(offsets)})

    def watch():
        run(PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)

    commit(slow, 4, 20)
    commit(quick, 10, 20)
    commit(unique("other"), 0, 0)
    watch()
    watch()
    commit(slow, 5, 20)
    watch()

    def told(topic):
        records = [record for records in read(tides.bootstrap, topic).values() for record in records]
        return [json.loads(record.value) for record in records]

    looks = [(row["name"], row["partition"], row["lag"]) for row in told("groups.lag")]
    assert sorted(looks) == sorted(
        2 * [(slow, 0, 6)] + [(slow, 0, 5)] + 3 * [(slow, 1, 0), (quick, 0, 0), (quick, 1, 0)]
    )
    alerts = [(row["kind"], row["name"], row["partition"], row["committed"]) for row in told("groups.alerts")]
    assert alerts[:2] == [(STOPPED, slow, 0, 4), (RESUMED, slow, 0, 5)]
    assert {alert[1:3] for alert in alerts} == {(slow, 0)}
    table = spark.read.parquet(str(tmp_path / "lags"))
    assert table.count() == len(looks)
    assert dict(table.dtypes)["at"] == "timestamp"
