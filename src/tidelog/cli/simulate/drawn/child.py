"""The process in which one mutant lives: `python -m tidelog.cli.simulate.drawn.child`, its orders on standard input.

It appends lines of JSON to the answer's file: `at` before each step, so that a time-out has a place; `found` where the
mutant was found out; `done` at the end. SIGALRM ends it where a step takes too long. It imports nothing of what is
mutated before the hook is there.
"""

import json
import marshal
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

from tidelog.sim.mutants.drawn.importing import Make, substituted

START_S = 120
"""For all that is imported before the first step."""
MEMORY = 6 << 30
"""A mutant that never stops to gather things must not take the machine's memory."""


PASSED_OR_FAILED = (0, 1, 5)
"""Codes with which pytest ends: the last is that there was no test."""


class Answer:
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


def measure(orders: Mapping[str, Any], answer: Answer) -> None:
    """Run tests and write down which blocks each of them reaches."""
    from tidelog.cli.simulate.drawn.pytest_plugins import Measuring

    plugin = Measuring(answer)
    _pytest(answer, ["--selection", "quick", *orders["paths"]], plugin)
    Path(orders["into"]).write_text(json.dumps(plugin.result()), encoding="utf-8")


def tests(orders: Mapping[str, Any], answer: Answer) -> None:
    """Run these tests in this order until one fails."""
    from tidelog.cli.simulate.drawn.pytest_plugins import Killing

    limits: dict[str, int] = orders["limits"]
    files = dict.fromkeys(name.partition("::")[0] for name in limits)
    code = _pytest(answer, ["-x", *files], Killing(limits, answer))
    if code not in PASSED_OR_FAILED:
        answer.found("the collection of tests", f"pytest ended with {code}")


def _pytest(answer: Answer, arguments: list[str], plugin: object) -> int:
    """pytest's exit code. Its temporary folders are this child's own: others clean up after each other meanwhile."""
    import pytest

    always = ["-q", "-p", "no:cacheprovider", "--timeout=0", "--basetemp", str(answer.path.with_suffix(".tmp"))]
    return int(pytest.main([*always, *arguments], [plugin]))


def stories(orders: Mapping[str, Any], answer: Answer) -> None:
    """Tell stories with all their knobs; each must end as `ends` says, or, where nothing is said, `into` gets it."""
    from tidelog.cli.simulate.drawn.stories import end_of, playbacks

    known: dict[str, object] | None = orders.get("ends")
    ends: dict[str, object] = {}
    for name, tell in playbacks(orders["scenarios"]):
        answer.at(name)
        ends[name] = end_of(tell)
        if known is not None and ends[name] != known[name]:
            return answer.found(name, str(ends[name]))
    if "into" in orders:
        Path(orders["into"]).write_text(json.dumps(ends), encoding="utf-8")
    return None


def seeds(orders: Mapping[str, Any], answer: Answer) -> None:
    """Run seeds until one breaks an invariant."""
    from tidelog.sim.plan import Plan
    from tidelog.sim.run import run

    for seed in range(orders["first"], orders["first"] + orders["count"]):
        answer.at(str(seed))
        outcome = run(Plan(seed))
        if not outcome.ok:
            return answer.found(str(seed), outcome.invariant)
    return None


STAGES: dict[str, Callable[[Mapping[str, Any], Answer], None]] = {
    "measure": measure,
    "tests": tests,
    "stories": stories,
    "seeds": seeds,
}


def _makes(orders: Mapping[str, Any]) -> dict[str, Make]:
    """The mutant's code in the place of its module's, or probes in all modules."""
    if "probes" in orders:
        import builtins

        from tidelog.cli.simulate.drawn import pytest_plugins
        from tidelog.sim.mutants.drawn.probes import REACHED, probed_code

        setattr(builtins, REACHED, pytest_plugins.reached.add)
        return {module: partial(probed_code, module) for module in orders["probes"]}
    if "module" in orders:
        code: CodeType = marshal.loads(Path(orders["code"]).read_bytes())  # noqa: S302  (the parent wrote it)
        return {orders["module"]: lambda _source, _path: code}
    return {}


def main() -> None:
    orders = json.load(sys.stdin)
    answer = Answer(Path(orders["answer"]))
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most < 0 else min(MEMORY, most), most))
    with substituted(_makes(orders)):
        answer.at("the imports")
        try:
            STAGES[orders["stage"]](orders, answer)
        except Exception as error:
            if "module" not in orders or orders["stage"] == "tests":  # pytest keeps what a mutant raises to itself
                answer.broken(repr(error))
                raise
            answer.found("an exception", repr(error))
    signal.alarm(0)
    answer.done()


if __name__ == "__main__":
    main()
