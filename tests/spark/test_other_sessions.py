"""Sessions of other kinds than the one that the tests share: executors that are processes, and Spark Connect."""

import json
import subprocess
import sys

import pytest
from deltalake import DeltaTable

from tests.audit.logs import write_cluster
from tests.spark.records import create, send
from tests.spark.settings import environment
from tests.spark.test_pipelines_mirror import read
from tidelog.testing import Cluster

WITHIN_S = 600


def ran(*command):
    """What a process printed that succeeded."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


@pytest.mark.timeout(900)
def test_an_audit_on_executors_that_are_processes_and_pipelines_by_spark_connect(tmp_path):
    """Source, sink, lake and mirror give each record once; a folder that the client cannot reach is refused."""
    replicas = tmp_path / "replicas"
    write_cluster(replicas)
    with Cluster(brokers=1) as brokers:
        topic = create(brokers, "orders", 2)
        for name in (f"{topic}.dead", f"{topic}.sink"):
            brokers.create_topic(name)
        values = [json.dumps({"id": number}).encode() for number in range(50)]
        send(brokers.bootstrap, topic, values[:30])
        send(brokers.bootstrap, topic, [*values[30:], b"no JSON"], 1)
        given = (str(tmp_path), brokers.bootstrap, topic, str(replicas))
        said, refused = ran("tests.spark.connect_server", *given).strip().rsplit("\n", 1)
        rows = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
        assert sorted((row["id"], row["_malformed"]) for row in rows) == [(number, None) for number in range(50)]
        for name, wanted in ((f"{topic}.dead", 1), (f"{topic}.sink", 51), (f"copy.{topic}", 51)):
            found = [each.value for records in read(brokers.bootstrap, name).values() for each in records]
            assert len(set(found)) == len(found) == wanted, name
    assert refused.startswith("refused: s3a://bucket/state is not on this machine, which a session of Spark Connect")
    local = ran("tidelog.cli.main", "audit", "--folder", str(replicas), "--local", "--json")
    assert {**json.loads(said), "seconds": 0} == {**json.loads(local), "seconds": 0}
