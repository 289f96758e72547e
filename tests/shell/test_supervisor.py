"""What a supervisor says of its brokers."""

from types import SimpleNamespace

from tidelog.shell import supervisor


def test_a_line_is_one_write_so_that_brokers_lines_do_not_come_into_it(monkeypatch):
    """Unbuffered, `print` writes the line's end on its own."""
    written = []
    monkeypatch.setattr(supervisor, "sys", SimpleNamespace(stderr=SimpleNamespace(write=written.append, flush=bool)))
    supervisor.print_line("broker 1 (pid 7) ended with signal SIGKILL")
    assert written == ["broker 1 (pid 7) ended with signal SIGKILL\n"]
