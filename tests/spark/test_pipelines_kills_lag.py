"""The lag through SIGKILL of its driver and of a broker: each look is told once, and the last is what pandas makes of the
ends and of what is committed."""

import json
from itertools import groupby, pairwise

import pandas as pd
import pytest

from tests.spark.flights_data import flights
from tests.spark.kills import DAYS, PARTITIONS, disturbed, fill, records, same
from tests.spark.records import send, unique
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.pipelines.group_lag import LAG, STOPPED

pytestmark = pytest.mark.timeout(900)
KEY = ["name", "partition"]
BEHIND, AHEAD = unique("behind"), unique("ahead")
BEFORE = [(name, number, offset) for name, offset in ((BEHIND, 10), (AHEAD, 20)) for number in range(PARTITIONS)]
AFTER = [(BEHIND, 0, 30), (AHEAD, 2, 25)]
MORE = 7
"""Records that come to partition 1 between the kills and the end."""


def commit(bootstrap, topic, commits):
    for name, partition, offset in commits:
        with Consumer(bootstrap, name) as consumer:
            consumer.commit({TopicPartition(topic, partition): offset})


def expected():
    """The last lag of each group and partition, from what was sent and committed."""
    sent = pd.DataFrame([(n % PARTITIONS, 1) for n in range(len(flights(DAYS)))] + [(1, 1)] * MORE)
    ends = sent.groupby(0)[1].sum().rename("end").rename_axis("partition").reset_index()
    commits = pd.DataFrame(BEFORE + AFTER, columns=[*KEY, "committed"])
    last = commits.groupby(KEY, as_index=False).last().merge(ends, on="partition")
    return last.assign(lag=last.end - last.committed)


def test_the_lag_ends_with_that_of_pandas(spark, cluster, tmp_path):
    bootstrap = cluster.bootstrap
    topic = fill(cluster, [])
    commit(bootstrap, topic, BEFORE)
    options = {"topics": topic, "groups": f"{BEHIND}|{AHEAD}", "stopped-after": "1 millisecond"}
    with disturbed(spark, cluster, tmp_path, "lag", 3, **options) as driver:
        commit(bootstrap, topic, AFTER)
        send(bootstrap, topic, [b"{}"] * MORE, 1)
        driver.finish()
    told = pd.DataFrame([json.loads(record.value) for record in records(bootstrap, "groups.lag")])
    assert set(told.kind) == {LAG}
    assert not told.duplicated([*KEY, "at"]).any(), "no look is told twice"
    assert len(told) == 2 * PARTITIONS * told["at"].nunique(), "no look is told in part"
    same(told.sort_values("at").groupby(KEY, as_index=False).last(), expected(), KEY)
    table = pd.read_parquet(tmp_path / "checkpoint" / "lags")
    same(table[[*KEY, "committed", "end", "lag"]], told[[*KEY, "committed", "end", "lag"]], [*KEY, "end", "committed"])
    check_alerts([json.loads(record.value) for record in records(bootstrap, "groups.alerts")])


def check_alerts(alerts):
    """Every group stood still with something to read; for each partition, stopping and going on take turns."""
    alerts.sort(key=lambda row: (row["name"], row["partition"]))  # stays in order for each
    found = {}
    for key, rows in groupby(alerts, key=lambda row: (row["name"], row["partition"])):
        found[key] = [row["kind"] for row in rows]
    assert found.keys() == {(name, number) for name in (BEHIND, AHEAD) for number in range(PARTITIONS)}
    for key, kinds in found.items():
        assert kinds[0] == STOPPED
        assert all(before != after for before, after in pairwise(kinds))
        if key not in {commit[:2] for commit in AFTER}:
            assert kinds == [STOPPED], "told once"
