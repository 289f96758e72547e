"""Chaos on real processes: the faults that the machine allows are done and undone, nothing is broken, nothing stays."""

import os
import subprocess
from pathlib import Path

import pytest

from tidelog.audit.acknowledged import of_history
from tidelog.history.text import parse
from tidelog.shell.auditing import folders, plan
from tidelog.shell.auditing.run import audit
from tidelog.shell.chaos import run, schedule

pytestmark = pytest.mark.processes


SECONDS = 20


@pytest.fixture
def told():
    return []


def left_behind():
    """Names of namespaces, links and mounts that chaos makes."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=False).stdout
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    spaces = Path("/run/netns")
    return [
        *(line for line in links.splitlines() if line.startswith("tdl-")),
        *(line for line in mounts.splitlines() if line.startswith("tidelog-chaos")),
        *(space.name for space in (spaces.iterdir() if spaces.is_dir() else ()) if space.name.startswith("tdl-")),
    ]


def test_faults_break_nothing_and_leave_nothing(tmp_path, told):
    before = left_behind()
    report = run.run(
        run.Files(tmp_path), brokers=3, seconds=SECONDS, seed=11, rate=150, kinds=schedule.KINDS, tell=told.append
    )
    assert report.is_good, (report.problems, report.verdict.as_json()["anomalies"])
    assert report.faults
    assert all(fault.ended_s is not None for fault in report.faults)
    assert report.verdict.figures["values_certain"] > 100
    assert set(report.skipped) <= set(schedule.KINDS)
    assert [line for line in told if line.startswith("audited the replicas of ")]
    assert left_behind() == before


def test_without_rights_processes_are_still_killed_and_the_rest_is_told(tmp_path, told, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    kinds = [schedule.KILL, schedule.CUT, schedule.FULL_DISK]
    report = run.run(run.Files(tmp_path), brokers=3, seconds=8, seed=2, rate=100, kinds=kinds, tell=told.append)
    assert report.is_good, (report.problems, report.verdict.as_json()["anomalies"])
    assert {fault.kind for fault in report.faults} == {schedule.KILL}
    assert "fault cut is skipped: no network namespaces: it needs root" in told
    assert "fault full-disk is skipped: nothing can be mounted: it needs root" in told
    check_stopped(tmp_path)


def check_stopped(home):
    """The folders of the brokers, which are stopped by now, hold nothing to find, and all that was acknowledged."""
    files = run.Files(home)
    with files.history.open(encoding="utf-8") as lines:
        acknowledged = of_history(parse(lines))
    audited = audit(plan.of_folders(folders.find([files.data]), acknowledged=acknowledged))
    assert [each for each in audited.findings if each.is_broken] == []
    assert sum(each.acknowledged for each in audited.partitions) > 100
    assert {len(each.replicas) for each in audited.partitions} == {3}
