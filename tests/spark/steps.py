"""Starts processes of `sink_steps` that can die by SIGKILL, without the second that an import takes: one process imports
everything and forks itself for each step."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.output import read_line

ROOT = Path(__file__).parent.parent.parent


class Steps:
    """Use as a context; `run` gives the exit code of a step, or the negative number of the signal that ended it."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.spark.sink_steps"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, start_new_session=True, **pipes)
        return self

    def run(self, *arguments: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(read_line(self._process.stdout, within_s=240))

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # and a step that hangs
        self._process.communicate()
