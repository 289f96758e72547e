"""The line that shows the progress of a long command."""

from tests.waiting import own_clock
from tidelog.cli import long_running


def test_a_line_is_made_only_when_it_is_shown(monkeypatch, capsys):
    """`tidelog fuzz` reports after each few frames, and its line sorts all latencies: that took most of a long run."""
    clock = [0.0]
    monkeypatch.setattr(long_running, "time", own_clock(monotonic=lambda: clock[0]))
    made = []

    def line():
        made.append(clock[0])
        return f"at {clock[0]:.0f} s"

    with long_running.progress_line() as show:
        for clock[0] in range(25):
            show(line)
    assert made == [10, 20]
    assert capsys.readouterr().err == "at 10 s\nat 20 s\n"
