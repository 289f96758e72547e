"""Pipelines as their users run them, `tidelog pipeline run`, in processes that die by SIGKILL with a broker. What is left
to do then is done by the same command in the session that the tests share, which spares the start of one more JVM; of the
mirror it is done by one more process.

TIDELOG_PIPELINE_KILLS says how often (once by default).
"""

import io
import os
import random
import selectors
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, redirect_stderr, suppress

import pandas as pd
import pytest

from tests.output import read_line
from tests.spark.flights_data import flights, send_spread, values
from tests.spark.records import in_sync, make_topic, send
from tests.spark.settings import configured, environment
from tests.spark.test_pipelines_mirror import read
from tidelog.cli.main import run as command
from tidelog.spark.pipelines import session

KILLS = int(os.environ.get("TIDELOG_PIPELINE_KILLS", "1"))
PARTITIONS, REPLICAS = 3, 3
DAYS = 3
BATCH = "450"
"""So that there are eight batches."""
LONGEST_WAIT_S = 1.0
ENDS_WITHIN_S = 600


class Driver:
    """One pipeline with one checkpoint, in a process of its own each time."""

    def __init__(self, spark, bootstrap, folder, name, **options):
        self._spark = spark
        self.checkpoint = folder / "checkpoint"
        self.log = self.checkpoint / "spark.log"
        self._options = options
        self._groups = []
        self._command = ["pipeline", "run", name, "--bootstrap", bootstrap]
        self._command += ["--checkpoint", str(self.checkpoint), "--every", "100 milliseconds"]

    def finish(self, **options):
        """Go on after the kills until everything is done; returns the progress reports."""
        told, terminating = io.StringIO(), signal.getsignal(signal.SIGTERM)
        with pytest.MonkeyPatch.context() as patch, redirect_stderr(told):
            patch.setattr(session, "session", self._shared)
            try:
                assert command([*self._with(options), "--once"]) == 0, told.getvalue()
            finally:
                signal.signal(signal.SIGTERM, terminating)
        return told.getvalue()

    def finish_alone(self):
        """The same in a process and a session of its own, as users run it."""
        command_line = [sys.executable, "-m", "tidelog.cli.main", *self._with({}), "--once"]
        done = subprocess.run(
            command_line, stderr=subprocess.PIPE, env=environment(), text=True, timeout=ENDS_WITHIN_S, check=False
        )
        assert done.returncode == 0, done.stderr + self._said()
        return done.stderr

    @contextmanager
    def _shared(self, _log, _settings):
        """In place of a session of its own."""
        needed = {**session.NEEDED, "spark.sql.shuffle.partitions": session.CHOSEN["spark.sql.shuffle.partitions"]}
        with ExitStack() as changes:
            for name, value in needed.items():
                changes.enter_context(configured(self._spark, name, value))
            yield self._spark

    def run_and_be_killed(self, cluster, chance, *, alone):
        """Until it is a batch on, and then some time, or until the next. A process that is killed `alone` leaves its JVM,
        and that its workers, as orphans, which may still be at work when the next one starts."""
        started = [sys.executable, "-m", "tidelog.cli.main", *self._with({})]
        process = subprocess.Popen(started, stderr=subprocess.PIPE, env=environment(), process_group=0)
        try:
            assert b"batch" in read_line(process.stderr, ENDS_WITHIN_S), self._said()
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
    topic = make_topic(cluster.bootstrap, PARTITIONS, replicas=REPLICAS, min_insync_replicas="2")
    send_spread(cluster.bootstrap, topic, values(flights(DAYS)), PARTITIONS)
    send(cluster.bootstrap, topic, others, 0)
    in_sync(cluster.bootstrap, topic, REPLICAS)  # a broker that the test before killed is back
    return topic


@contextmanager
def disturbed(spark, cluster, folder, name, seed, *, alone=False, **options):
    """The driver after its kills, which has still to finish: what it had read until then is chance, up to everything, so
    more should be sent."""
    chance = random.Random(seed)
    driver = Driver(spark, cluster.bootstrap, folder, name, **options)
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
