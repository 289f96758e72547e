"""A lake on a standalone cluster under spark-submit, through SIGKILL of an executor, of a worker and of the driver: each
record is one row of the table."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from tests.spark.records import make_topic, send
from tests.spark.settings import SHORT_JVM, environment
from tests.spark.standalone import Standalone
from tidelog.testing import Cluster

PARTITIONS, ROWS, BATCH = 2, 600, 200
SCRIPT = "from tidelog.cli.main import main\n\nmain()\n"
ENDS_WITHIN_S = 600


class Driver:
    """One lake with one checkpoint, in processes of spark-submit."""

    def __init__(self, folder, master, bootstrap, topic):
        script = folder / "run_tidelog.py"
        script.write_text(SCRIPT, encoding="utf-8")
        self.table = folder / "table"
        self._log = folder / "submit.log"
        self._said = []
        options = {"topic": topic, "path": self.table, "schema": "number bigint", "batch": BATCH, "compact": 0}
        self._command = [
            *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", master),
            *("--conf", "spark.executor.memory=512m", "--conf", f"spark.executor.extraJavaOptions={SHORT_JVM}"),
            *(script, "pipeline", "run", "lake", "--bootstrap", bootstrap, "--checkpoint", folder / "checkpoint"),
            *("--once", "--conf", "spark.sql.shuffle.partitions=1"),
            *(word for name, value in options.items() for word in ("--option", f"{name}={value}")),
        ]

    def start(self):
        with self._log.open("ab") as log:  # spark-submit writes what its Python process writes to its own stdout
            self.process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**environment(), "PYSPARK_PYTHON": sys.executable},
                process_group=0,
            )

    def batches(self, count):
        """Wait until it has reported so many more batches; returns the reports."""
        told = []
        while len(told) < count:
            line = self.process.stdout.readline().decode()
            assert line, f"the driver ended: {''.join(self._said[-40:])}"
            self._said.append(line)
            if line.startswith("lake: batch"):
                told.append(line)
        return told

    def finish(self):
        """Everything that it still reports."""
        said = self.process.communicate(timeout=ENDS_WITHIN_S)[0].decode()
        assert self.process.returncode == 0, said[-5000:]
        return said

    def kill(self):
        """Python and its JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


@pytest.mark.timeout(1500)
def test_a_lake_ends_with_every_record_whatever_is_killed(tmp_path):
    with Cluster(brokers=1) as brokers, Standalone(tmp_path) as spark:
        topic = make_topic(brokers.bootstrap, PARTITIONS)
        for partition in range(PARTITIONS):
            send(brokers.bootstrap, topic, [json.dumps({"number": n}).encode() for n in range(ROWS)], partition)
        driver = Driver(tmp_path, spark.master, brokers.bootstrap, topic)
        driver.start()
        try:
            driver.batches(1)
            spark.kill_executor()
            driver.batches(1)
            spark.kill_worker()
            driver.batches(1)
        finally:
            driver.kill()
        assert DeltaTable(driver.table).to_pyarrow_table().num_rows < PARTITIONS * ROWS, "something was left to do"
        driver.start()
        try:
            assert "lake: batch" in driver.finish()
        finally:
            driver.kill()
        rows = DeltaTable(driver.table).to_pyarrow_table().select(["_partition", "_offset", "number"]).to_pylist()
    wanted = [(partition, number, number) for partition in range(PARTITIONS) for number in range(ROWS)]
    assert sorted((row["_partition"], row["_offset"], row["number"]) for row in rows) == wanted
