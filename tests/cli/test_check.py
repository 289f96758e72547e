"""`tidelog check`: a verdict and its exit code; what cannot be judged is refused in one sentence."""

import json

from tests.check.history.made import Made


def clean():
    return Made().sent(0, 0, 10, 0).sent(0, 0, 11, 1).scanned(2, {0: [(0, 10), (1, 11)]})


def lossy():
    return Made().sent(0, 0, 10, 0).sent(0, 0, 11, 1).scanned(2, {0: [(1, 11)]})


def written(folder, lines):
    file = folder / "h.jsonl"
    file.write_text("".join(lines), encoding="utf-8")
    return str(file)


def test_a_clean_history_is_ok(tidelog, tmp_path):
    result = tidelog("check", "verify", written(tmp_path, clean().lines))
    assert result.code == 0
    assert result.lines[-2].startswith("values: 2 certain, 0 indeterminate, 0 failed, 2 read;")
    assert result.lines[-1] == "broken 0 ok"


def test_an_anomaly_is_reported_with_its_evidence(tidelog, tmp_path):
    result = tidelog("check", "verify", written(tmp_path, lossy().lines))
    assert result.code == 1
    assert result.lines[1].split()[:3] == ["lost-write", "1", "BROKEN"]
    assert "lost-write: t-0: value 10 at offset 0 was never read, though 11 at 1 was (lines 3, 9)" in result.lines
    assert result.lines[-1] == "broken 1 FAILED"


def test_the_verdict_as_json(tidelog, tmp_path):
    told = json.loads(tidelog("check", "verify", "--json", written(tmp_path, lossy().lines)).out)
    assert told["valid"] is False
    assert told["anomalies"]["lost-write"]["evidence"][0]["values"] == [10]
    assert told["figures"]["values_certain"] == 2


def test_a_truncated_history_is_refused_with_the_line(tidelog, tmp_path):
    file = written(tmp_path, clean().lines[:-1])
    result = tidelog("check", "verify", file)
    assert (result.code, result.out) == (1, "")
    assert result.err == f'{file}, line 12: expected {{"end":N}} as the last line: the file is cut off.\n'


def test_a_foreign_file_is_refused(tidelog, tmp_path):
    result = tidelog("check", "verify", written(tmp_path, ["hello\n"]))
    assert result.code == 1
    assert "line 1: expected a JSON object, found 'hello'." in result.err


def test_a_cluster_that_nobody_can_reach_is_one_sentence(tidelog, free_ports, tmp_path):
    (port,) = free_ports(1)
    result = tidelog("check", "run", "--bootstrap", f"127.0.0.1:{port}", "--out", str(tmp_path / "h"))
    assert (result.code, result.out) == (1, "")
    assert result.err == f"No broker is reachable at 127.0.0.1:{port} (Connection refused).\n"
    assert not (tmp_path / "h").exists()


def test_a_run_writes_a_history_and_cleans_up(tidelog, cluster, tmp_path):
    file = tmp_path / "h.jsonl"
    place = ("--bootstrap", cluster.bootstrap, "--out", str(file), "--topics", "1", "--json")
    for seconds in ("2", "8", "32"):  # a busy machine may need more of them for as much
        result = tidelog("check", "run", *place, "--seconds", seconds)
        assert result.code == 0, result
        told = json.loads(result.out)
        assert told["valid"]
        if told["figures"]["values_certain"] > 100:
            break
    assert told["figures"]["values_certain"] > 100
    assert "reading everything again" in result.err
    assert tidelog("check", "verify", str(file)).code == 0
    listed = tidelog("topics", "--bootstrap-server", cluster.bootstrap, "--list")
    assert not set(told["topics"]) & set(listed.lines)
