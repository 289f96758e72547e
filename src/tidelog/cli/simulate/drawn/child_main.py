"""The process of one hunt, started as `python -m` this module, with its orders as JSON on standard input.

It appends JSON lines to the answer file: `at` before each step, so that a time-out can be located; `found` when the
mutant is killed; `done` at the end. SIGALRM ends the process if a step exceeds its limit. Modules that can be mutated
are imported inside functions, because the import hook must be installed first.
"""

import itertools
import json
import marshal
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from tidelog.cli.simulate.drawn.child_process import AnswerFile
from tidelog.sim.mutants.drawn.importing import Make, substituted

if TYPE_CHECKING:
    from tidelog.lab.playback import Playback

MEMORY = 6 << 30
"""The memory limit in bytes, so that a mutant that allocates without end does not exhaust the machine."""


PASSED_OR_FAILED = (0, 1, 5)
"""pytest's exit codes for a run that was not cut short; 5 means that no test was collected."""

Play = Callable[[], "Playback"]


def measure(orders: Mapping[str, Any], answer: AnswerFile) -> None:
    """Run tests and record which blocks each of them reaches."""
    from tidelog.cli.simulate.drawn.pytest_plugins import Measuring

    plugin = Measuring(answer)
    _pytest(answer, ["--selection", "quick", *orders["paths"]], plugin)
    Path(orders["into"]).write_text(json.dumps(plugin.result()), encoding="utf-8")


def tests(orders: Mapping[str, Any], answer: AnswerFile) -> None:
    """Run these tests in this order until one fails."""
    from tidelog.cli.simulate.drawn.pytest_plugins import Killing

    limits: dict[str, int] = orders["limits"]
    files = dict.fromkeys(name.partition("::")[0] for name in limits)
    code = _pytest(answer, ["-x", *files], Killing(limits, answer))
    if code not in PASSED_OR_FAILED:
        answer.found("the collection of tests", f"pytest ended with {code}")


def _pytest(answer: AnswerFile, arguments: list[str], plugin: object) -> int:
    """Run pytest; returns its exit code. The child has a temporary folder of its own, because pytest processes delete
    each other's old folders in a shared one."""
    import pytest

    always = ["-q", "-p", "no:cacheprovider", "--timeout=0", "--basetemp", str(answer.path.with_suffix(".tmp"))]
    return int(pytest.main([*always, *arguments], [plugin]))


def playbacks(scenarios: str | None) -> Iterator[tuple[str, Play]]:
    """(name, function that plays the story) of all stories of the lab with all their knobs, and of the regression
    stories in the folder `scenarios`, which contain commands and their expected output."""
    from tidelog.lab.engine import find, names, tell

    for name in names():
        knobs = find(name).knobs.values()
        for values in itertools.product(*(knob.values for knob in knobs)):
            given = dict(zip((knob.name for knob in knobs), values, strict=True))
            yield " ".join((name, *values)), partial(tell, find(name), given)
    for path in sorted(Path(scenarios).glob("*.txt")) if scenarios else ():
        yield path.name, partial(_play_file, path)


def end_of(play: Play) -> list[object]:
    """The end of a story, to compare with others; for a story that raises, the exception."""
    try:
        verdict = play().verdict
    except Exception as error:  # noqa: BLE001  (whatever broke is what was looked for)
        return [repr(error)]
    return [verdict.ok, [record.label for record in verdict.lost], verdict.differs, verdict.sentences]


def _play_file(path: Path) -> "Playback":
    from tidelog.lab.engine import tell
    from tidelog.lab.kinds import VERBS
    from tidelog.lab.language import Command, read

    def check_output(command: Command, lines: list[str]) -> None:
        assert (lines or ["ok"]) == command.expected, f"{path.name}:{command.line}: {command.text}"

    return tell(read(path.stem, path.name, path.read_text(encoding="utf-8"), VERBS), told=check_output)


def stories(orders: Mapping[str, Any], answer: AnswerFile) -> None:
    """Play all stories with all their knobs, and compare their ends with `ends`; write the ends to `into` if given."""
    known: dict[str, object] | None = orders.get("ends")
    ends: dict[str, object] = {}
    for name, play in playbacks(orders["scenarios"]):
        answer.at(name)
        ends[name] = end_of(play)
        if known is not None and ends[name] != known[name]:
            return answer.found(name, str(ends[name]))
    if "into" in orders:
        Path(orders["into"]).write_text(json.dumps(ends), encoding="utf-8")
    return None


def seeds(orders: Mapping[str, Any], answer: AnswerFile) -> None:
    """Run seeds until one violates an invariant."""
    from tidelog.sim.plan import Plan
    from tidelog.sim.run import run

    for seed in range(orders["first"], orders["first"] + orders["count"]):
        answer.at(str(seed))
        outcome = run(Plan(seed))
        if not outcome.ok:
            return answer.found(str(seed), outcome.invariant)
    return None


STAGES: dict[str, Callable[[Mapping[str, Any], AnswerFile], None]] = {
    "measure": measure,
    "tests": tests,
    "stories": stories,
    "seeds": seeds,
}


def _makes(orders: Mapping[str, Any]) -> dict[str, Make]:
    """The code to substitute by module: the mutant's, or all modules with probes."""
    if "probes" in orders:
        import builtins

        from tidelog.cli.simulate.drawn import pytest_plugins
        from tidelog.sim.mutants.drawn.importing import REACHED, probed_code

        setattr(builtins, REACHED, pytest_plugins.reached.add)
        return {module: partial(probed_code, module) for module in orders["probes"]}
    if "module" in orders:
        code: CodeType = marshal.loads(Path(orders["code"]).read_bytes())  # noqa: S302  (the parent wrote it)
        return {orders["module"]: lambda _source, _path: code}
    return {}


def main() -> None:
    orders = json.load(sys.stdin)
    answer = AnswerFile(Path(orders["answer"]))
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
