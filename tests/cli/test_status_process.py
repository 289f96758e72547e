"""`tidelog status --watch` on a terminal of its own: keys, views, and the end."""

import os
import pty
import select
import subprocess
import sys
from contextlib import suppress

from tests.waiting import wait_for


def test_keys_on_a_real_terminal(cluster):
    master, slave = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "tidelog",
        "status",
        "--watch",
        "--internal",
        "--bootstrap-server",
        cluster.bootstrap,
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        seen = b""

        def shows(text):
            nonlocal seen
            if select.select([master], [], [], 0.05)[0]:
                with suppress(OSError):  # the other end is closed
                    seen += os.read(master, 65_536)
            return text in seen

        wait_for(lambda: shows(b"Replicas at"), "the first view")
        os.write(master, b"v")
        wait_for(lambda: shows(b"Groups at"), "the next view")
        os.write(master, b"q")
        wait_for(lambda: shows(b"never") or process.poll() is not None, "it to quit")
        os.close(master)
    assert process.returncode == 0
