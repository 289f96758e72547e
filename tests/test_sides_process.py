"""The clusters that `bench` measures, and tests start: what is begun is ended, also where a broker is not ready."""

import sys

import pytest

from bench.sides import Side


class Broken(Side):
    """The first broker waits, the second ends at once."""

    name = "Broken"

    def prepare(self):
        self.began = []

    def command(self, number):
        waits = "import time; time.sleep(600)" if number == 0 else "raise SystemExit('it cannot start')"
        return [sys.executable, "-c", waits]

    def wait_ready(self):
        self.began = list(self.processes.values())
        self.began[1].wait()
        self.ports.reverse()
        self.processes = dict(enumerate(reversed(self.began)))
        super().wait_ready()


def test_no_process_is_left_where_a_broker_cannot_start(tmp_path):
    side = Broken(tmp_path / "cluster", 2)
    with pytest.raises(RuntimeError, match="Broken broker 0 is not ready"), side:
        pass
    assert len(side.began) == 2
    assert all(process.poll() is not None for process in side.began)
