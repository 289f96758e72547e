"""The replica audit on Spark's executors comes to the same report as in one process: of damaged folders, of a running
cluster, of compacted topics, however the logs are cut into pieces."""

import json
import os

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkRuntimeError

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
from tests.spark.records import create
from tests.waiting import wait_for
from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import Acknowledged
from tidelog.audit.io import cluster, fetching, folders, plan, run
from tidelog.check.chaos import run as chaos
from tidelog.check.chaos import schedule
from tidelog.check.history.text import parse
from tidelog.check.replicas import acknowledged_records
from tidelog.cli.main import run as command
from tidelog.cli.replica_states import replica_states
from tidelog.lab.engine import HISTORY, export_disks, find, tell
from tidelog.shell.transport import Admin, Producer
from tidelog.spark import audit_session
from tidelog.spark.audit_session import on

CHAOS_SECONDS = int(os.environ.get("TIDELOG_AUDIT_CHAOS_SECONDS", "6"))
CHAOS_SEED = int(os.environ.get("TIDELOG_AUDIT_CHAOS_SEED", "5"))
PIECES = ("--piece-mb", "1")


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
    topic = create(tides, "audited", 2)
    with Producer(tides.bootstrap, acks="all", batch_size=300) as producer:
        for number in range(400):
            producer.send(topic, b"v%d" % number, partition=number % 2)
        producer.flush()
    with Admin(tides.bootstrap) as admin:
        # A follower learns the last high watermark by its next fetch; the two reports must see the same.
        wait_for(
            lambda: {state.high_watermark for state in replica_states(admin, topic)} == {200}, "all have all committed"
        )
    reports = []
    for runner in (run.run_locally, on(spark.sparkContext)):
        with Admin(tides.bootstrap) as admin:
            made = cluster.plan(
                admin, cluster.ClusterAccess(tides.bootstrap, piece_bytes=1), topics=[topic], acknowledged={}
            )
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


def flipped(home):
    flip_record(segment(write_cluster(home)[0], 2))


def truncated(home):
    file = segment(write_cluster(home)[1], 4)
    file.write_bytes(file.read_bytes()[:-100])


def lacking(home):
    remove_segment(write_cluster(home)[2], 1)


def diverged(home):
    tell(
        find("divergence-by-high-watermark"),
        {"truncation": "high_watermark"},
        ended=lambda play: export_disks(play, home),
    )


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        (flipped, {finding.CHECKSUM}),
        (truncated, {finding.TORN, finding.SHORT}),
        (lacking, {finding.GAP}),
        (diverged, {finding.DIVERGENCE, finding.LINEAGE, finding.ELECTION, finding.ACKNOWLEDGED}),
    ],
)
def test_the_command_finds_each_damage_on_spark(spark, tmp_path, capsys, damage, kinds):
    damage(tmp_path)
    history = ["--history", str(tmp_path / HISTORY)] if (tmp_path / HISTORY).exists() else []
    assert command(["audit", "--folder", str(tmp_path), "--json", *PIECES, *history]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {each["kind"] for each in told["findings"] if each["broken"]} == kinds


def fails(_):
    raise RuntimeError("the disk is gone")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited.", "[JAVA_GATEWAY_EXITED] Java gateway process exited"),
        ("An error occurred\n: java.lang.IllegalStateException: no\n\tat org.X", "java.lang.IllegalStateException: no"),
        (": org.apache.spark.SparkException: x\nModuleNotFoundError: No module named 'tidelog'\n\tat org.X",
         "ModuleNotFoundError: No module named 'tidelog'"),
    ],
)  # fmt: skip
def test_what_spark_says_is_one_line(text, reason):
    assert audit_session._reason(PySparkRuntimeError(text)) == reason


def test_a_task_that_fails_says_why(spark):
    with (
        pytest.raises(audit_session.Failed, match="RuntimeError: the disk is gone"),
        audit_session.running("local[1]") as carry,
    ):
        carry(fails, [1], [1])


def test_what_is_no_master_is_refused_before_spark_starts(damaged, capsys, monkeypatch):
    monkeypatch.setattr(audit_session.SparkSession, "getActiveSession", lambda: None)
    assert command(["audit", "--folder", str(damaged), "--master", "nonsense"]) == 1
    said = capsys.readouterr().err
    assert (
        "(--master nonsense): 'nonsense' is not a Spark master; expected local[*], spark://HOST:PORT, yarn or k8s://HOST:PORT."
        in said
    )
    assert said.endswith("--local requires neither.\n")


def test_nothing_is_found_after_chaos(spark, tmp_path, monkeypatch):
    """In the folders of brokers that were killed, paused and restarted, beside what their clients were told.
    `TIDELOG_AUDIT_CHAOS_SECONDS` makes it longer, `TIDELOG_AUDIT_CHAOS_SEED` another one."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # as root brokers get disks of their own, which go with them
    files, said = chaos.Files(tmp_path), []
    kinds = [schedule.KILL, schedule.PAUSE, schedule.RESTART]
    told = chaos.run(
        files, brokers=3, seconds=CHAOS_SECONDS, seed=CHAOS_SEED, rate=100, kinds=kinds, report_line=said.append
    )
    assert told.is_good, told.problems
    with files.history.open(encoding="utf-8") as lines:
        acknowledged = acknowledged_records(parse(lines))
    asked = {"acknowledged": acknowledged, "piece_bytes": 100_000}
    reports = [
        run.audit(plan.of_folders(folders.find([files.data]), **asked), runner)
        for runner in (run.run_locally, on(spark.sparkContext))
    ]
    assert reports[0] == reports[1]
    assert [each for each in reports[0].findings if each.is_broken] == []
    assert sum(each.acknowledged for each in reports[0].partitions) > 50
    assert {len(each.replicas) for each in reports[0].partitions} == {3}
