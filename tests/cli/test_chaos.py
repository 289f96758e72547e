"""`tidelog chaos`: its refusals, and for how long it waits for an answer; the runs themselves are in tests/check/chaos."""

import tempfile
from types import SimpleNamespace

import pytest

from tests.check.history.made import Made
from tidelog.check.chaos import run
from tidelog.check.chaos.report import LateArrival, Report
from tidelog.check.history.verdict import verify


def test_an_unknown_fault_is_refused(tidelog):
    result = tidelog("chaos", "--faults", "kill,flood")
    assert result.code == 1
    assert "--faults: unknown kind 'flood'; expected kill, pause, restart" in result.err


def test_what_came_late_is_printed(tidelog, monkeypatch, tmp_path):
    read = Made().sent(0, 0, 10, 0).scanned(1, {0: [(0, 10)]})

    def ran(*_, late_s, **__):
        report = Report(seed=0, brokers=3, seconds=1, skipped={}, verdict=verify(read.history))
        report.late = [LateArrival("LeaderAndIsr", 0, 1, 2.0, 2.0 + late_s, answer) for answer in ("NONE", None, None)]
        return report

    monkeypatch.setattr(run, "run", ran)
    result = tidelog("chaos", "--late-seconds", "40", "--report", str(tmp_path))
    assert result.code == 0
    assert "late: 1 LeaderAndIsr, NONE\nlate: 2 LeaderAndIsr, no answer\n" in result.out
    assert '"arrived_s": 42.0' in (tmp_path / "report.json").read_text(encoding="utf-8")


def test_a_folder_that_was_used_is_refused(tidelog, tmp_path):
    (tmp_path / "data").mkdir()
    result = tidelog("chaos", "--report", str(tmp_path))
    assert (result.code, result.err) == (
        1,
        f"{tmp_path / 'data'} already exists; --report requires a folder without earlier data.\n",
    )


@pytest.mark.parametrize(("answers_at_s", "problems"), [(2.0, 0), (35.0, 0), (90.0, 1)])
def test_an_answer_after_the_last_cure_may_take_a_while(monkeypatch, answers_at_s, problems):
    passed = [0.0]
    clock = SimpleNamespace(monotonic=lambda: passed[0], sleep=lambda seconds: passed.append(passed.pop() + seconds))
    monkeypatch.setattr(run, "time", clock)

    class Recorder:
        @property
        def seconds(self):
            return passed[0]

        @property
        def acknowledged(self):
            return int(passed[0] >= answers_at_s)

    supervisor = SimpleNamespace(wait_ready=lambda: None)
    cluster = SimpleNamespace(supervisor=supervisor, restart_ended=lambda: None, deliver=lambda: None)
    workload = SimpleNamespace(recorder=Recorder(), tick=lambda: None)
    report = Report(seed=0, brokers=3, seconds=1, skipped={})
    run._Runner(cluster, workload, report, lambda _line: None).heal()
    assert len(report.problems) == problems
    assert passed[0] >= min(run.RECOVERY_S, answers_at_s)


def test_an_interrupted_run_leaves_nothing_in_the_temporary_folder(tidelog, monkeypatch, tmp_path):
    def interrupted(files, **_):
        (files.data / "broker-0").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupted)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert tidelog("chaos", "--seconds", "1").code == 130
    assert list(tmp_path.iterdir()) == []
