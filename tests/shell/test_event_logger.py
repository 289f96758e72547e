"""Log lines: which events become one."""

import io

import pytest

from tests.waiting import own_clock
from tidelog.effects import Event
from tidelog.node.event_log import LINES_OF_ONE
from tidelog.shell import event_logger
from tidelog.shell.event_logger import EventLogger


def kinds(lines, capsys, *events):
    for kind, level in events:
        lines.event(Event(kind, {}, level))
    return [line.split()[3] for line in capsys.readouterr().err.splitlines()]


def test_levels_are_heard_by_family(capsys):
    lines = EventLogger("broker-0")
    told = [("partition.leader", "debug"), ("config.changed", "info"), ("request.failed", "error")]
    assert kinds(lines, capsys, *told) == ["config.changed", "request.failed"]
    lines.set_levels({"partition": "DEBUG", "config": "OFF"})
    assert kinds(lines, capsys, *told) == ["partition.leader", "request.failed"]
    lines.set_levels({"root": "ERROR", "config": "INFO"})
    assert kinds(lines, capsys, *told) == ["config.changed", "request.failed"]
    lines.set_levels({})
    assert kinds(lines, capsys, *told) == ["config.changed", "request.failed"]


def test_lines_that_peers_cause_are_limited_and_say_how_many_were_omitted(capsys, monkeypatch):
    now = 100.0
    monkeypatch.setattr(event_logger, "time", own_clock(monotonic=lambda: now))
    logger = EventLogger("broker-0")
    for _ in range(1_000):
        logger.write("warning", "connection.refused", {"reason": "x"})
        logger.write("warning", "partition.offline", {})
    lines = capsys.readouterr().err.splitlines()
    assert sum("connection.refused" in line for line in lines) == LINES_OF_ONE
    assert sum("partition.offline" in line for line in lines) == 1_000
    now = 101.0
    logger.write("warning", "connection.refused", {"reason": "x"})
    logger.write("warning", "connection.refused", {"reason": "x"})
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith(f"reason=x omitted={1_000 - LINES_OF_ONE}")
    assert second.endswith("reason=x")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_peer_cannot_make_a_line_long(capsys, as_json):
    EventLogger("broker-0", as_json=as_json).write("info", "connection.refused", {"reason": "x" * 500_000})
    assert len(capsys.readouterr().err) < 1_200


def test_a_line_that_cannot_be_written_is_lost_and_raises_nothing(monkeypatch):
    """`tidelog broker FILE 2>&1 | head` closed the pipe: the line about the signal raised, and the broker did not stop."""

    class ClosedPipe(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr("sys.stderr", ClosedPipe())
    EventLogger("broker-0").write("info", "broker.stopping", {"reason": "SIGTERM"})
