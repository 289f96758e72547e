"""A session of another kind than the one that the tests share: with executors that are processes."""

import json
import subprocess
import sys

import pytest

from tests.audit.logs import write_cluster
from tests.spark.settings import environment

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
def test_an_audit_runs_on_executors_that_are_processes(tmp_path):
    write_cluster(tmp_path)
    said = ran(
        "tidelog.cli.main", "audit", "--folder", str(tmp_path), "--master", "local-cluster[1,1,1024]", "--json"
    )  # fmt: skip
    local = ran("tidelog.cli.main", "audit", "--folder", str(tmp_path), "--local", "--json")
    assert {**json.loads(said), "seconds": 0} == {**json.loads(local), "seconds": 0}
