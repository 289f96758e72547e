"""Pipelines as their users run them, `tidelog pipeline run`, in processes that die by SIGKILL with a broker.

TIDELOG_PIPELINE_KILLS says how often (once by default).
"""

import os
import random
import selectors
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress

import pandas as pd

from tests.spark.flights_data import flights, send_spread, values
from tests.spark.records import send
from tests.spark.test_pipelines_mirror import read
from tidelog.shell.transport import Admin
from tidelog.spark.pipelines import ground

KILLS = int(os.environ.get("TIDELOG_PIPELINE_KILLS", "1"))
PARTITIONS, REPLICAS = 3, 3
DAYS = 6
BATCH = "700"
"""So that there are eight batches."""
ENDS_WITHIN_S = 600
LONGEST_WAIT_S = 1.0


class Driver:
    """One pipeline with one checkpoint, in a process of its own each time."""

    def __init__(self, bootstrap, folder, name, **options):
        self.checkpoint = folder / "checkpoint"
        self.log = self.checkpoint / "spark.log"
        self._options = options
        self._groups = []
        self._command = [sys.executable, "-m", "tidelog.cli.main", "pipeline", "run", name, "--bootstrap", bootstrap]
        self._command += ["--checkpoint", str(self.checkpoint), "--every", "100 milliseconds"]

    def finish(self, **options):
        """Go on after the kills until everything is done; what is told of the way."""
        done = subprocess.run(
            [*self._with(options), "--once"], stderr=subprocess.PIPE, text=True, timeout=ENDS_WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr + self._said()
        return done.stderr

    def run_and_be_killed(self, cluster, chance, *, alone):
        """Until it is a batch on, and then some time, or until the next. A process that is killed `alone` leaves its JVM,
        and that its workers, as orphans, which may still be at work when the next one starts."""
        process = subprocess.Popen(self._with({}), stderr=subprocess.PIPE, process_group=0)
        try:
            assert b"batch" in process.stderr.readline(), self._said()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stderr, selectors.EVENT_READ)
                waiting.select(chance.random() * LONGEST_WAIT_S)
            broker = chance.randrange(REPLICAS)
            cluster.kill(broker)
        finally:
            (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
            process.wait()
            process.stderr.close()
        cluster.start_broker(broker)
        self._groups.append(process.pid)

    def end(self):
        """End what may be left of processes that were killed alone."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def _with(self, options):
        pairs = {**self._options, **options}.items()
        return [*self._command, *(word for key, value in pairs for word in ("--option", f"{key}={value}"))]

    def _said(self):
        return self.log.read_text(errors="replace")[-5000:]


def fill(cluster, others):
    """A topic of flights on three brokers, with other records at the end of its first partition."""
    with Admin(cluster.bootstrap) as admin:
        ground.make(admin, {"flights": ground.Shape(PARTITIONS, REPLICAS, {"min.insync.replicas": "2"})})
        ground.wait_for(admin, ["flights"])
    send_spread(cluster.bootstrap, "flights", values(flights(DAYS)), PARTITIONS)
    send(cluster.bootstrap, "flights", others, 0)


@contextmanager
def disturbed(cluster, folder, name, seed, *, alone=False, **options):
    """The driver after its kills, which has still to finish: what it had read until then is chance, up to everything, so
    more should be sent."""
    chance = random.Random(seed)
    driver = Driver(cluster.bootstrap, folder, name, **options)
    try:
        for _ in range(KILLS):
            driver.run_and_be_killed(cluster, chance, alone=alone)
        yield driver
    finally:
        driver.end()


def records(bootstrap, topic):
    return [record for each in read(bootstrap, topic).values() for record in each]


def same(found, wanted, by):
    """Hold two tables against each other, row by row."""
    plain = [each[[*wanted.columns]].sort_values(by, ignore_index=True).astype(object) for each in (found, wanted)]
    pd.testing.assert_frame_equal(*(each.where(each.notna(), None) for each in plain))
