"""The line that shows the progress of a long command, and the signals that end one."""

import select
import signal
import threading

from tests.waiting import PATIENCE_S, own_clock
from tidelog.cli import long_running
from tidelog.cli.brokers.running_cluster import stop_signals


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


def test_a_signal_that_another_thread_takes_ends_the_wait_of_up():
    """The kernel gives a signal to any thread; only the main thread runs handlers, and it may be in a system call."""
    with stop_signals() as wake_fd:
        other = threading.Timer(0.2, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM))
        other.start()
        poller = select.poll()
        poller.register(wake_fd, select.POLLIN)
        assert poller.poll(PATIENCE_S * 1000)
        other.join()
