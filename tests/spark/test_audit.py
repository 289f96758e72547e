"""The replica audit on Spark's executors comes to the same report as in one process: of damaged folders, of a running
cluster, of compacted topics, however the logs are cut into pieces."""

import json

import pytest

pytest.importorskip("pyspark")

from tests.audit.logs import (
    NAME,
    batches,
    flip_record,
    found,
    remove_segment,
    segment,
    write_cluster,
    write_replica,
)
from tidelog.audit import finding
from tidelog.audit.acknowledged import Acknowledged
from tidelog.cli.main import run as command
from tidelog.shell.auditing import cluster, fetching, folders, plan, run
from tidelog.shell.transport import Admin, Producer
from tidelog.spark.audit.session import on

pytestmark = pytest.mark.spark


@pytest.fixture
def damaged(tmp_path):
    """A flipped bit, a segment that is gone, a tail of an epoch that nobody else has."""
    paths = write_cluster(tmp_path)
    flip_record(segment(paths[0], 2))
    remove_segment(paths[1], 3)
    write_replica(tmp_path / "more", 3, batches(95, epoch_of=lambda number: number // 30 + (number > 90)))
    return tmp_path


@pytest.mark.parametrize("compacted", [[], [NAME.topic]])
def test_spark_and_one_process_find_the_same(spark, damaged, compacted):
    given = folders.find([damaged])
    wanted = {NAME: [Acknowledged(offset, 7) for offset in range(0, 500, 50)]}
    wanted = {} if compacted else wanted
    whole = run.audit(plan.of_folders(given, acknowledged=wanted, compacted=compacted))
    pieces = plan.of_folders(given, acknowledged=wanted, compacted=compacted, piece_bytes=1)
    assert len([piece for replica in pieces.subjects[0].replicas for piece in replica.pieces]) > 15
    spread = run.audit(pieces, on(spark.sparkContext))
    assert spread.as_json()["findings"] == whole.as_json()["findings"]
    assert spread == whole
    assert {finding.CHECKSUM} <= {kind for kind, _, _ in found(whole)}


def test_a_running_cluster_is_fetched_by_the_executors(spark, tides):
    tides.create_topic("audited", 2)
    with Producer(tides.bootstrap, acks="all", batch_size=300) as producer:
        for number in range(400):
            producer.send("audited", b"v%d" % number, partition=number % 2)
        producer.flush()
    reports = []
    for runner in (run.here, on(spark.sparkContext)):
        with Admin(tides.bootstrap) as admin:
            made = cluster.plan(admin, cluster.Way(tides.bootstrap, piece_bytes=1), topics=["audited"], acknowledged={})
        reports.append(run.audit(made, runner))
    fetching.close()
    here, there = reports
    assert here.findings == there.findings == []
    assert [each.replicas for each in here.partitions] == [each.replicas for each in there.partitions]
    assert [[each.end for each in view.replicas] for view in here.partitions] == [[200] * 3] * 2


def test_the_command_prints_the_same_json_with_spark_and_without(spark, damaged, capsys):
    """It takes the session that there is, and leaves it running."""
    told = []
    for flags in ([], ["--local"]):
        assert command(["audit", "--folder", str(damaged), "--json", *flags]) == 1
        told.append({**json.loads(capsys.readouterr().out), "seconds": 0})
    assert told[0] == told[1]
    assert spark.range(3).count() == 3
