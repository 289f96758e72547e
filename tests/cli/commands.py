"""A command of `tidelog` as a process of its own, and its output."""

import subprocess
import sys
from contextlib import contextmanager, suppress

PATIENCE_S = 120


@contextmanager
def running(*arguments):
    """The command as a process with its output; it is gone afterwards, however the test ends."""
    command = [sys.executable, "-m", "tidelog.cli.main", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                process.communicate(timeout=PATIENCE_S)
            finally:
                process.kill()


def ended(process):
    """Exit code and the rest of what it printed."""
    out, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out
