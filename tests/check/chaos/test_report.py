"""A chaos report: what it counts, what makes it bad, and a page that needs nothing from elsewhere."""

import json
import re

import pytest

from tests.check.history.made import Made
from tidelog.check.chaos.page import page
from tidelog.check.chaos.report import FaultRecord, LateArrival, Report, longest_silence, timeline
from tidelog.check.history.verdict import verify


def made():
    return Made().sent(0, 0, 10, 0).unanswered(1, 0, 11).scanned(2, {0: [(0, 10)]})


def lossy():
    return Made().sent(0, 0, "<b>", 0).sent(0, 0, 11, 1).scanned(2, {0: [(1, 11)]})


def report_of(history, **changes):
    found = Report(seed=7, brokers=3, seconds=60, skipped={"cut": "no network namespaces: it needs root"})
    found.verdict = verify(history)
    found.timeline = timeline(history)
    found.faults = [FaultRecord("kill", (0,), 0.1, 0.9), FaultRecord("pause", (1, 2), 0.2)]
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_calls_are_counted_by_second():
    (second,) = timeline(made().history)
    assert (second.sends, second.polls, second.without_answer) == (1, 1, 1)
    assert (second.send_ms_p50, second.send_ms_max) == (1.0, 1.0)
    assert timeline(Made().history) == []


def test_the_longest_silence_counts_from_the_beginning_to_the_end():
    assert longest_silence(made().history, until_s=5) == 5.0  # the one acknowledgement came at 1 ms
    assert longest_silence(Made().history, until_s=3) == 3.0


def test_a_problem_makes_a_clean_history_bad():
    assert report_of(made().history).is_good
    assert not report_of(made().history, problems=["broker 1 (pid 5) ended with exit code 1"]).is_good
    assert not report_of(lossy().history).is_good


def test_the_report_is_json():
    told = json.loads(json.dumps(report_of(made().history).as_json()))
    assert told["good"] is True
    assert told["faults"][0] == {"kind": "kill", "brokers": [0], "begun_s": 0.1, "ended_s": 0.9}
    assert told["verdict"]["figures"]["values_certain"] == 1


@pytest.mark.parametrize(("history", "outcome"), [(made(), "nothing is broken"), (lossy(), "broken")])
def test_the_page_reports_verdict_faults_and_seed_and_loads_nothing(history, outcome):
    text = page(report_of(history.history))
    assert f">{outcome}</span>" in text
    assert "kill of 0, 0.1 s to 0.9 s" in text
    assert "cut was skipped: no network namespaces" in text
    assert "tidelog chaos --brokers 3 --seconds 60 --seed 7" in text
    assert not re.search(r"(src|href)=|url\(|@import", text)


def test_the_page_counts_late_requests_by_their_answers():
    late = [LateArrival("StopReplica", 0, 1, 3.0, 43.0, "STALE_CONTROLLER_EPOCH") for _ in range(2)]
    text = page(report_of(made().history, late=[*late, LateArrival("Fetch", 2, 1, 3.5, 41.0, None)]))
    assert '<td>StopReplica</td><td class="number">2</td><td>STALE_CONTROLLER_EPOCH</td>' in text
    assert '<td>Fetch</td><td class="number">1</td><td>no answer</td>' in text
    assert "Late requests" not in page(report_of(made().history))


def test_what_stands_in_records_is_escaped_on_the_page():
    text = page(report_of(lossy().history))
    assert "&lt;b&gt;" in text
    assert "<b>'" not in text
