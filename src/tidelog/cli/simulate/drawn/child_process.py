"""Running a child, and what its answer means."""

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
"""Of a child that failed by itself."""


START_S = 120
"""For all that is imported before the first step."""


class Killer(NamedTuple):
    """What found a mutant out: `by` is test, story, seed or time-out; `name` says which, `said` what it said."""

    by: str
    name: str
    message: str = ""


class AnswerFile:
    """The lines for the parent; `limit` bounds the step that begins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_found = False

    def at(self, step: str, limit: int = START_S) -> None:
        self._append({"at": step})
        signal.alarm(limit)

    def found(self, name: str, said: str = "") -> None:
        """What found the mutant out; only the first counts."""
        if not self.is_found:
            self.is_found = True
            self._append({"found": name, "said": said})

    def broken(self, why: str) -> None:
        """The hunt itself failed: that says nothing of the mutant."""
        self._append({"broken": why})

    def done(self) -> None:
        self._append({"done": True})

    def _append(self, line: dict[str, object]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def run_child(orders: Mapping[str, Any], by: str, root: Path | None, code: bytes | None = None) -> Killer | None:
    """What the child found, or where it took too long; None where nothing. `code` is that of the mutant, marshalled. A
    child without a mutant that ends in another way, or a hunt that fails by itself, is a ClickException."""
    with TemporaryDirectory(prefix="tidelog-mutant-") as folder:
        answer, printed = Path(folder, "answer"), Path(folder, "said")
        answer.touch()
        whole: dict[str, Any] = {**orders, "answer": str(answer)}
        if code is not None:
            place = Path(folder, "code")
            place.write_bytes(code)
            whole["code"] = str(place)
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
            return Killer(by, line["found"], line["said"])
    if lines and "done" in lines[-1]:
        return None
    at = next((line["at"] for line in reversed(lines) if "at" in line), "the start")
    if code == -signal.SIGALRM:
        return Killer("time-out", at, by)
    if not is_mutant or not lines or any("broken" in line for line in lines):
        last = "\n".join(output.strip().splitlines()[-MAX_OUTPUT_LINES:])
        raise ClickException(f"a child of the hunt ended with {code} at {at}:\n{last}")
    return Killer(by, at, f"the process ended with {code}")
