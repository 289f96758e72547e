"""pytest plugins of a child: they record which blocks each test reaches, or which test kills the mutant."""

import time
from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tidelog.cli.simulate.drawn.child_process import AnswerFile

MEASURED_S = 240
"""The time limit of a test during measurement; exceeding it ends the measurement."""

reached: set[str] = set()
"""The blocks that ran since the set was cleared."""


class Measuring:
    """Records seconds and blocks of each test that passes."""

    def __init__(self, answer: AnswerFile) -> None:
        self._answer = answer
        self._imported: list[str] = []
        self._tests: dict[str, tuple[float, list[str]]] = {}
        self._failed: set[str] = set()

    def __repr__(self) -> str:
        return f"<Measuring {len(self._tests)} tests>"

    def pytest_collection_finish(self) -> None:
        self._imported = sorted(reached)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._answer.at(item.nodeid, MEASURED_S)
        reached.clear()
        begun = time.perf_counter()
        result = yield
        self._tests[item.nodeid] = round(time.perf_counter() - begun, 4), sorted(reached)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.add(report.nodeid)

    def result(self) -> dict[str, Any]:
        """The measurement; `imported` are blocks that ran during collection. Failed tests are left out: they would kill
        any mutant."""
        passed = {name: figures for name, figures in self._tests.items() if name not in self._failed}
        return {"imported": self._imported, "tests": passed, "failed": sorted(self._failed)}


class Killing:
    """Runs the tests of `limits`, each with its time limit in seconds, file by file in this order. Within a file tests
    keep their own order, because they may depend on earlier ones."""

    def __init__(self, limits: Mapping[str, int], answer: AnswerFile) -> None:
        self._limits = limits
        self._answer = answer
        files = dict.fromkeys(name.partition("::")[0] for name in limits)
        self._order = {file: index for index, file in enumerate(files)}

    def __repr__(self) -> str:
        return f"<Killing with {len(self._limits)} tests>"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if item.nodeid in self._limits]
        items[:] = sorted(chosen, key=lambda item: self._order[item.nodeid.partition("::")[0]])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._answer.found(report.nodeid or "the collection of tests", _last_line(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._answer.at(nodeid, self._limits[nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._answer.found(report.nodeid, _last_line(report))


def _last_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    return (report.longreprtext.strip().splitlines() or [""])[-1]
