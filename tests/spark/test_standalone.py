"""A lake on a standalone cluster under spark-submit, as docs/spark-cluster.md says, through SIGKILL of a Python worker, of
an executor, of a worker and of the driver: each record is one row of the table. Executors have Python and its packages
from an archive."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

import tidelog
from tests.output import read_line
from tests.spark.records import make_topic, send
from tests.spark.settings import SHORT_JVM, environment
from tests.spark.standalone import Standalone
from tidelog.testing import Cluster

PARTITIONS, ROWS, BATCH = 2, 600, 120
DOCUMENT = Path(__file__).parents[2] / "docs" / "spark-cluster.md"
ENDS_WITHIN_S = 600


def documented(start):
    """The command of the document that starts like this, as one line."""
    lines = DOCUMENT.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    (found,) = [line.strip() for line in lines if line.strip().startswith(start)]
    return found


def archive(folder):
    """Made as the document says, but that the packages are linked, not installed."""
    made = documented("python -m venv env && ")
    venv, _, pack = made.split(" && ")
    link = Path("env/lib") / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "tidelog.pth"
    paths = [sysconfig.get_path("purelib"), str(Path(tidelog.__file__).parents[1])]
    for command in (f"{venv} --without-pip", pack):
        words = command.replace("env/bin/venv-pack", f"python -m venv_pack -q -p {folder / 'env'}").split()
        subprocess.run([sys.executable if word == "python" else word for word in words], cwd=folder, check=True)
        (folder / link).write_text(f"import sys; sys.path.extend({paths})\n", encoding="utf-8")
    return folder / "env.tar.gz"


class Driver:
    """One lake with one checkpoint, in processes of spark-submit."""

    def __init__(self, folder, master, bootstrap, topic):
        subprocess.run(["sh", "-c", documented("printf ")], cwd=folder, check=True)
        self.table = folder / "orders"
        self._folder, self._log = folder, folder / "submit.log"
        self._said = []
        places = {
            "spark://spark-master:7077": master,
            "kafka-1:9092": bootstrap,
            "topic=orders": f"topic={topic}",
            "/shared/": f"{folder}/",
        }
        command = documented("spark-submit --master spark:")
        for named, there in places.items():
            assert named in command
            command = command.replace(named, there)
        submit, *words = command.split()
        found = {"archives": f"{archive(folder)}#env", "pyspark.python": "./env/bin/python"}
        settings = {**found, "pyspark.driver.python": sys.executable, "executor.memory": "512m"}
        settings["executor.extraJavaOptions"] = SHORT_JVM
        options = {"schema": "number bigint", "batch": BATCH, "compact": 0}
        self._command = [
            Path(pyspark.__file__).parent / "bin" / submit,
            *(word for name, value in settings.items() for word in ("--conf", f"spark.{name}={value}")),
            *(*words, "--once", "--conf", "spark.sql.shuffle.partitions=1"),
            *(word for name, value in options.items() for word in ("--option", f"{name}={value}")),
        ]

    def start(self):
        with self._log.open("ab") as log:  # spark-submit writes what its Python process writes to its own stdout
            self.process = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                env={name: value for name, value in environment().items() if name != "PYSPARK_PYTHON"},
                process_group=0,
            )

    def batches(self, count):
        """Wait until it has reported so many more batches; returns the reports."""
        told = []
        while len(told) < count:
            line = read_line(self.process.stdout, ENDS_WITHIN_S).decode()
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
            spark.kill_python_worker()
            driver.batches(1)
            spark.kill_executor()
            driver.batches(1)
            spark.kill_worker()
            driver.batches(1)
        finally:
            driver.kill()
        for partition in range(PARTITIONS):  # it may have read all that there was
            later = range(ROWS, ROWS + BATCH)
            send(brokers.bootstrap, topic, [json.dumps({"number": n}).encode() for n in later], partition)
        driver.start()
        try:
            assert "lake: batch" in driver.finish()
        finally:
            driver.kill()
        rows = DeltaTable(driver.table).to_pyarrow_table().select(["_partition", "_offset", "number"]).to_pylist()
    wanted = [(partition, number, number) for partition in range(PARTITIONS) for number in range(ROWS + BATCH)]
    assert sorted((row["_partition"], row["_offset"], row["number"]) for row in rows) == wanted
