"""`tidelog chaos`: its refusals; the runs themselves are in tests/shell/chaos."""


def test_an_unknown_fault_is_refused(tidelog):
    result = tidelog("chaos", "--faults", "kill,flood")
    assert result.code == 1
    assert "--faults does not know 'flood'; there are kill, pause, restart" in result.err


def test_a_folder_that_was_used_is_refused(tidelog, tmp_path):
    (tmp_path / "data").mkdir()
    result = tidelog("chaos", "--report", str(tmp_path))
    assert (result.code, result.err) == (1, f"{tmp_path / 'data'} exists already: a run starts from nothing.\n")


def test_a_short_run_writes_its_report(tidelog, tmp_path):
    result = tidelog("chaos", "--brokers", "2", "--seconds", "4", "--faults", "pause", "--report", str(tmp_path / "r"))
    assert result.code == 0, result
    assert result.lines[-1].startswith("faults ")
    assert result.lines[-1].endswith(" seed 0 ok")
    assert {file.name for file in (tmp_path / "r").iterdir()} == {
        "history.jsonl", "report.json", "report.html", "broker-0.log", "broker-1.log",
    }  # fmt: skip
