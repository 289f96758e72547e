"""Pipelines as their users run them, `tidelog pipeline run`, with the driver and brokers killed by SIGKILL in the middle:
run again on the same checkpoint they end with what they end with undisturbed.

TIDELOG_PIPELINE_KILLS says how often (once by default).
"""

import json
import os
import random
import selectors
import signal
import subprocess
import sys
from collections import Counter

import pandas as pd
import pytest

from tests.spark.flights_data import MALFORMED, TICK, expected, flights, results, send_spread, values
from tests.spark.records import send
from tests.spark.test_pipelines_mirror import plain, read
from tidelog.model import TopicPartition
from tidelog.shell.transport import Consumer
from tidelog.spark.pipelines import ground
from tidelog.spark.pipelines.lag.watching import LAG

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]
KILLS = int(os.environ.get("TIDELOG_PIPELINE_KILLS", "1"))
PARTITIONS, REPLICAS = 3, 3
DAYS = 6
BATCH = "700"
ENDS_WITHIN_S = 600
LONGEST_WAIT_S = 3.0


class Driver:
    """One pipeline with one checkpoint, in a process of its own each time."""

    def __init__(self, bootstrap, folder, name, **options):
        self.log = folder / "checkpoint" / "spark.log"
        self._command = [sys.executable, "-m", "tidelog.cli.main", "pipeline", "run", name, "--bootstrap", bootstrap]
        self._command += ["--checkpoint", str(folder / "checkpoint"), "--every", "100 milliseconds"]
        for key, value in options.items():
            self._command += ["--option", f"{key}={value}"]

    def finish(self):
        done = subprocess.run(
            [*self._command, "--once"], stderr=subprocess.PIPE, text=True, timeout=ENDS_WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr + self.log.read_text(errors="replace")[-5000:]
        return done.stderr

    def run_and_be_killed(self, cluster, chance):
        """Until it is a batch or two on, and then some time."""
        process = subprocess.Popen(self._command, stderr=subprocess.PIPE, process_group=0)
        try:
            for _ in range(chance.randint(1, 2)):
                assert b"batch" in process.stderr.readline(), self.log.read_text(errors="replace")[-5000:]
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stderr, selectors.EVENT_READ)
                waiting.select(chance.random() * LONGEST_WAIT_S)
            broker = chance.randrange(3)
            cluster.kill(broker)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stderr.close()
        cluster.start_broker(broker)


@pytest.fixture(scope="module")
def filled(cluster):
    """A topic of flights on three brokers."""
    create_wide(cluster.bootstrap, "flights")
    send_spread(cluster.bootstrap, "flights", values(flights(DAYS)), PARTITIONS)
    send(cluster.bootstrap, "flights", [*MALFORMED], 0)
    return cluster


def create_wide(bootstrap, name):
    from tidelog.shell.transport import Admin

    with Admin(bootstrap) as admin:
        ground.make(admin, {name: ground.Shape(PARTITIONS, REPLICAS, {"min.insync.replicas": "2"})})
        ground.wait_for(admin, [name])


def disturbed(cluster, folder, name, seed, **options):
    """The driver after its kills, which has still to finish."""
    chance = random.Random(seed)
    driver = Driver(cluster.bootstrap, folder, name, **options)
    for _ in range(KILLS):
        driver.run_and_be_killed(cluster, chance)
    return driver


def records(bootstrap, topic):
    return [record for each in read(bootstrap, topic).values() for record in each]


def test_mirror(filled, tmp_path):
    disturbed(
        filled, tmp_path, "mirror", 1, topics="flights", to=filled.bootstrap, prefix="copy.", batch=BATCH, groups=""
    ).finish()
    originals, copies = read(filled.bootstrap, "flights"), read(filled.bootstrap, "copy.flights")
    for place, found in originals.items():
        copied = copies[TopicPartition("copy.flights", place.partition)]
        assert [plain(record) for record in copied] == [plain(record) for record in found]


def test_lake(filled, tmp_path):
    options = {"topic": "flights", "path": tmp_path / "table", "batch": BATCH, "compact": 3, "partition": "origin"}
    disturbed(
        filled, tmp_path, "lake", 2, **options, schema="carrier string, origin string, flight bigint, time_hour string"
    ).finish()
    from deltalake import DeltaTable

    found = DeltaTable(tmp_path / "table").to_pandas()
    good = found[found._malformed.isna() & found.carrier.notna() & found.time_hour.notna() & found.origin.notna()]
    columns = ["carrier", "origin", "flight", "time_hour"]
    wanted = Counter(map(tuple, flights(DAYS)[columns].to_numpy()))
    assert not wanted - Counter(map(tuple, good[columns].to_numpy()))
    assert not found.duplicated(["_partition", "_offset"]).any()
    assert len(found) == len(flights(DAYS)) + len(MALFORMED)


def test_lag(filled, tmp_path):
    bootstrap = filled.bootstrap
    for name, offset in (("behind", 10), ("ahead", 20)):
        with Consumer(bootstrap, name) as consumer:
            consumer.commit({TopicPartition("flights", number): offset for number in range(PARTITIONS)})
    options = {"topics": "flights", "groups": "behind|ahead", "stopped-after": "1 millisecond"}
    disturbed(filled, tmp_path, "lag", 3, **options).finish()
    told = [json.loads(record.value) for record in records(bootstrap, "groups.lag")]
    with Consumer(bootstrap) as consumer:
        ends = consumer.end_offsets([("flights", number) for number in range(PARTITIONS)])
    looks = Counter((row["at"], row["name"], row["partition"]) for row in told)
    assert set(looks.values()) == {1}
    assert len(looks) == 2 * PARTITIONS * len({row["at"] for row in told})
    offsets = {"behind": 10, "ahead": 20}
    assert all(row["lag"] == ends[TopicPartition("flights", row["partition"])] - offsets[row["name"]] for row in told)
    alerts = Counter(json.loads(record.value)["name"] for record in records(bootstrap, "groups.alerts"))
    assert alerts == {"behind": PARTITIONS, "ahead": PARTITIONS}, "once for each partition"
    assert all(row["kind"] == LAG for row in told)
    assert len(pd.read_parquet(tmp_path / "checkpoint" / "lags")) == len(told)


def test_flights(filled, tmp_path):
    bootstrap = filled.bootstrap
    driver = disturbed(filled, tmp_path, "flights", 4, batch=BATCH)
    driver.finish()
    send(bootstrap, "flights", [TICK], 1)
    driver.finish()
    wanted = expected(flights(DAYS))
    told = records(bootstrap, "flights.delays")
    pd.testing.assert_frame_equal(results([record.value for record in told]), wanted)
    dead = {
        record.value: dict(record.headers)["tidelog.reason"].decode() for record in records(bootstrap, "flights.dead")
    }
    assert dead == MALFORMED
    table = pd.read_parquet(tmp_path / "checkpoint" / "delays")
    assert len(table) == len(wanted)
    assert table["flights"].sum() == len(flights(DAYS))
