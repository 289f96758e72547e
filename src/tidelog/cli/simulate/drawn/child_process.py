"""Runs a hunt in a child process, and interprets the answer file that the child writes."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from click import ClickException

MAX_OUTPUT_LINES = 12
"""How many lines of a failed child's output are printed."""


START_S = 120
"""The time limit for imports, before the first step."""


class Killer(NamedTuple):
    """What killed a mutant: `by` is test, story, seed or time-out, `name` says which one, `message` is its output."""

    by: str
    name: str
    message: str = ""


class AnswerFile:
    """Writes the JSON lines that the parent reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_found = False

    def at(self, step: str, limit: int = START_S) -> None:
        self._append({"at": step})
        signal.alarm(limit)

    def found(self, name: str, message: str = "") -> None:
        """Report that the mutant was killed; only the first report counts."""
        if not self.is_found:
            self.is_found = True
            self._append({"found": name, "message": message})

    def broken(self, why: str) -> None:
        """Report that the hunt itself failed, which is no verdict on the mutant."""
        self._append({"broken": why})

    def done(self) -> None:
        self._append({"done": True})

    def _append(self, line: dict[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def run_child(orders: Mapping[str, Any], by: str, root: Path | None, code: bytes | None = None) -> Killer | None:
    """Run a child; returns what killed the mutant, or the step that timed out, or None. `code` is the mutant's
    marshalled code. Raises ClickException if a child without a mutant fails, or the hunt itself does."""
    with TemporaryDirectory(prefix="tidelog-mutant-") as folder:
        answer, printed = Path(folder, "answer"), Path(folder, "output")
        answer.touch()
        whole: dict[str, Any] = {**orders, "answer": str(answer)}
        if code is not None:
            code_file = Path(folder, "code")
            code_file.write_bytes(code)
            whole["code"] = str(code_file)
        with printed.open("wb") as output:
            ended = subprocess.run(
                [sys.executable, "-m", "tidelog.cli.simulate.drawn.child_main"],
                input=json.dumps(whole).encode(),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=root,
                check=False,
            )
        lines = [json.loads(line) for line in answer.read_text(encoding="utf-8").splitlines()]
        output_text = printed.read_text(encoding="utf-8", errors="replace")
    return _interpret(lines, ended.returncode, by, output_text, is_mutant=code is not None)


def _interpret(lines: list[dict[str, Any]], code: int, by: str, output: str, *, is_mutant: bool) -> Killer | None:
    for line in lines:
        if "found" in line:
            return Killer(by, line["found"], line["message"])
    if lines and "done" in lines[-1]:
        return None
    at = next((line["at"] for line in reversed(lines) if "at" in line), "the start")
    if code == -signal.SIGALRM:
        return Killer("time-out", at, by)
    if not is_mutant or not lines or any("broken" in line for line in lines):
        last = "\n".join(output.strip().splitlines()[-MAX_OUTPUT_LINES:])
        raise ClickException(f"a child of the hunt ended with {code} at {at}:\n{last}")
    return Killer(by, at, f"the process ended with {code}")
