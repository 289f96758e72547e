"""Requests between real brokers that arrive long after their sender gave their connection up: a controller's are refused,
no client sees anything of it."""

import os

import pytest

from tidelog.check.chaos import cluster, faults, run, schedule
from tidelog.check.chaos.schedule import LATE, FaultRound, PlannedFault
from tidelog.check.workload import target
from tidelog.errors import ErrorCode

CIRCLE = ((0, 1), (1, 2), (2, 0))
"""Whoever is the controller, one broker hears it late."""
SECONDS, LATE_S = 6, 5.0
SHORT = {"request.timeout.ms": "1000", "replica.lag.time.max.ms": "1000"}
PUSHES = {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}


def in_a_circle(_seed, _brokers, _kinds):
    yield FaultRound([PlannedFault(LATE, pair) for pair in CIRCLE], SECONDS, 0.0)


def begin_and_push(at, planned, begin=faults.begin):
    """Once all are held, new topics are something to push."""
    begin(at, planned)
    if planned.brokers == CIRCLE[-1]:
        target.create_topics(at.supervisor.bootstrap, topics=1, partitions=3)


@pytest.mark.parametrize("user", [os.geteuid(), 1000])
def test_a_push_that_arrives_late_is_refused_and_nothing_is_broken(tmp_path, monkeypatch, user):
    """With the rights of this process, which may be root's and give brokers namespaces, and without."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(schedule, "rounds", in_a_circle)
    monkeypatch.setattr(cluster, "OPTIONS", {**cluster.OPTIONS, **SHORT})
    monkeypatch.setattr(faults, "begin", begin_and_push)
    monkeypatch.setattr(run, "CALM_S", 1.0)
    monkeypatch.setattr(run, "RECOVERY_S", 1.0)
    told = []
    report = run.run(
        run.Files(tmp_path),
        brokers=3,
        seconds=SECONDS,
        seed=1,
        rate=100,
        kinds=[LATE],
        late_s=LATE_S,
        report_line=told.append,
    )
    assert report.is_good, (report.problems, report.verdict.as_json()["anomalies"])
    assert report.skipped.get(LATE) is None
    assert report.verdict.figures["values_certain"] > 50
    pushes = [each for each in report.late if each.api in PUSHES]
    assert ErrorCode.STALE_CONTROLLER_EPOCH.name in {each.answer for each in pushes}, report.late_counts
    held_s = [each.arrived_s - each.sent_s for each in report.late]
    assert float(SHORT["request.timeout.ms"]) / 1000 <= max(held_s) <= LATE_S + 1
