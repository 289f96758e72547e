"""Log lines: which events become one."""

from tidelog.effects import Event
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
