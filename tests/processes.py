"""Broker processes for tests."""

import signal

from tidelog.shell.supervisor import Supervisor


class Processes(Supervisor):
    """A supervisor that ends its brokers with SIGKILL: three that stop cleanly hand their leaderships over, for a second
    and a half, and tests/shell/test_supervisor_process.py looks at that."""

    def stop(self) -> None:
        for child in self.children:
            child.signal(signal.SIGKILL)
        super().stop()
