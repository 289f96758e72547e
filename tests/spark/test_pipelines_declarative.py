"""The project of Spark Declarative Pipelines in examples: it runs to the same hours as pandas."""

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.spark.flights_data import MALFORMED, TICK, expected, flights, results, send_spread, shaped, values
from tests.spark.records import send
from tests.spark.settings import SETTINGS, environment
from tests.spark.test_pipelines_mirror import read

PROJECT = Path(__file__).parent.parent.parent / "examples" / "declarative"
STORAGE = "file:///var/tmp/tidelog-flights"
SAME = ("spark.ui.enabled", "spark.sql.streaming.checkpointFileManagerClass")
"""Settings of the shared session that make this one quicker, too."""
PARTITIONS = 2
WITHIN_S = 800


@pytest.mark.timeout(900)
def test_the_project_runs(tides, tmp_path):
    for topic in ("flights", "flights.delays", "flights.dead"):
        tides.create_topic(topic, PARTITIONS)
    send_spread(tides.bootstrap, "flights", values(flights(1)), PARTITIONS)
    send(tides.bootstrap, "flights", [*MALFORMED, TICK], 0)
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    (tmp_path / "storage").mkdir()
    spec = project / "spark-pipeline.yml"
    text = spec.read_text(encoding="utf-8")
    assert STORAGE in text
    spec.write_text(text.replace(STORAGE, f"file://{tmp_path}/storage"), encoding="utf-8")
    assert "Run is COMPLETED" in pipelines(project, tides.bootstrap)
    told = results([record.value for record in records(tides, "flights.delays")])
    pd.testing.assert_frame_equal(told, expected(flights(1)))
    dead = {record.value: dict(record.headers)["tidelog.reason"].decode() for record in records(tides, "flights.dead")}
    assert dead == MALFORMED
    table = pd.read_parquet(project / "spark-warehouse" / "delays")
    hours = table.assign(hour=table["hour"].dt.strftime("%Y-%m-%dT%H:%M:%S.000Z"))
    pd.testing.assert_frame_equal(shaped(hours), expected(flights(1)))
    carriers = pd.read_parquet(project / "spark-warehouse" / "carriers")
    pd.testing.assert_frame_equal(in_order(carriers), in_order(expected_carriers(expected(flights(1)))))
    outcomes = pd.read_parquet(project / "spark-warehouse" / "outcomes")
    assert outcomes.topic.value_counts().to_dict() == {"flights.delays": len(told), "flights.dead": len(MALFORMED)}


def expected_carriers(hours):
    """By pandas from its own hours."""
    sums = hours.groupby("carrier", as_index=False)[["arrival_delay", "arrived", "flights"]].sum()
    return sums.assign(mean_delay=sums.arrival_delay / sums.arrived)


def in_order(carriers):
    found = carriers[["carrier", "mean_delay", "flights"]].astype({"flights": "int64"})
    return found.sort_values("carrier", ignore_index=True)


def pipelines(project, bootstrap):
    """What `spark-pipelines run` says; it validates the project first, as its dry run does."""
    program = str(Path(sys.executable).with_name("spark-pipelines"))
    arguments = [word for name in SAME for word in ("--conf", f"{name}={SETTINGS[name]}")]
    done = subprocess.run(
        [program, *arguments, "run"],
        cwd=project,
        env={**environment(), "TIDELOG_BOOTSTRAP": bootstrap, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr


def records(tides, topic):
    return [record for each in read(tides.bootstrap, topic).values() for record in each]
