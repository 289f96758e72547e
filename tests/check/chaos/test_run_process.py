"""Chaos on real processes: the faults that the machine allows are done and undone, nothing is broken, nothing stays."""

import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidelog.audit.io import folders, plan
from tidelog.audit.io.run import audit
from tidelog.check.chaos import machine, run, schedule
from tidelog.check.history.text import parse
from tidelog.check.replicas import acknowledged_records
from tidelog.cli import chaos as command
from tidelog.cli import main

SECONDS = 12


@pytest.fixture
def told():
    return []


@pytest.fixture(autouse=True)
def _brisk(monkeypatch):
    """More faults in less time; a pause still costs a broker its session, which lasts two seconds here."""
    monkeypatch.setattr(schedule, "LASTS_S", (1.0, 4.0))
    monkeypatch.setattr(schedule, "RESTS_S", (0.5, 1.5))
    monkeypatch.setattr(run, "CALM_S", 0.5)
    monkeypatch.setattr(run, "RECOVERY_S", 2.0)


@pytest.fixture
def networks(monkeypatch):
    """The names of the networks that are made; what other tests make at the same time is theirs."""
    names, enter = [], machine.Network.__enter__

    def entered(self):
        names.append(self._name)
        return enter(self)

    monkeypatch.setattr(machine.Network, "__enter__", entered)
    return names


def left_behind(networks, folder):
    """Namespaces, links and mounts that are there still."""
    links = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True, check=False).stdout
    mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    spaces = Path("/run/netns")
    found = [*links.splitlines(), *(space.name for space in (spaces.iterdir() if spaces.is_dir() else ()))]
    return [
        *(line for line in found if line.startswith(tuple(networks))),
        *(line for line in mounts.splitlines() if str(folder) in line),
    ]


@pytest.mark.parametrize("quorum", [False, True], ids=["sqlite", "quorum"])
def test_faults_break_nothing_and_leave_nothing(quorum, tmp_path, told, networks):
    report = run.run(
        run.Files(tmp_path),
        brokers=3,
        seconds=SECONDS,
        seed=11,
        rate=150,
        kinds=schedule.KINDS,
        quorum=quorum,
        report_line=told.append,
    )
    assert report.is_good, (report.problems, report.verdict.as_json()["anomalies"])
    assert report.faults
    assert all(fault.ended_s is not None for fault in report.faults)
    assert report.verdict.figures["values_certain"] > 100
    assert set(report.skipped) <= set(schedule.KINDS)
    assert [line for line in told if line.startswith("audited the replicas of ")]
    assert len(networks) == 1
    assert left_behind(networks, tmp_path) == []


def test_without_rights_processes_of_a_secured_cluster_are_still_killed(tmp_path, capsys, monkeypatch):
    """By the command, which writes its report and deletes the brokers' folders, here only after they were looked at."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    deleted = []
    monkeypatch.setattr(command, "shutil", SimpleNamespace(rmtree=lambda place, **_: deleted.append(place)))
    home = tmp_path / "r"
    options = ("--brokers", "3", "--seconds", "4", "--seed", "2", "--rate", "100", "--report", str(home))
    code = main.run(["chaos", "--secure", *options, "--faults", "kill,cut,full-disk,late"])
    out, err = capsys.readouterr()
    assert code == 0, (out, err)
    assert re.fullmatch(r"faults [1-9]\d*, .* seed 2 ok", out.splitlines()[-1])
    assert "chaos: fault cut is skipped: no network namespaces: it needs root" in err
    assert "chaos: fault full-disk is skipped: nothing can be mounted: it needs root" in err
    assert "chaos: fault late is skipped: a relay cannot read requests that are encrypted" in err
    assert (home / "broker-0.log").read_text(encoding="utf-8").count("listeners=SASL_SSL://127.0.0.1:") > 0
    assert deleted == [home / "data"]
    written = {"history.jsonl", "report.json", "report.html", "broker-0.log", "broker-1.log", "broker-2.log", "data"}
    assert {file.name for file in home.iterdir()} == written
    report = json.loads((home / "report.json").read_text(encoding="utf-8"))
    assert {fault["kind"] for fault in report["faults"]} == {schedule.KILL}
    check_stopped(home)


def check_stopped(home):
    """The folders of the brokers, which are stopped by now, hold nothing to find, and all that was acknowledged."""
    files = run.Files(home)
    with files.history.open(encoding="utf-8") as lines:
        acknowledged = acknowledged_records(parse(lines))
    audited = audit(plan.of_folders(folders.find([files.data]), acknowledged=acknowledged))
    assert [each for each in audited.findings if each.is_broken] == []
    assert sum(each.acknowledged for each in audited.partitions) > 100
    assert {len(each.replicas) for each in audited.partitions} == {3}
