"""The outcome of one run, and the summary of many."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.sim.checks.costs import NOTHING, Cost
from tidelog.sim.plan import Plan

INVARIANT = re.compile(r"(I\d+|liveness)\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`seconds` and `steps` are simulated time and inputs of brokers; `counts` says how often each thing happened;
    `struck` are the faults that happened, by number; `lossy` counts partitions that were allowed to lose records.
    `violation` is empty if every invariant held; otherwise it is the whole report. `dearest` is the most expensive
    input of a broker, `slow` are those that took too long (I49); they differ from run to run.
    """

    plan: Plan
    digest: str = ""
    seconds: float = 0.0
    steps: int = 0
    acked: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    struck: Mapping[int, str] = field(default_factory=dict)
    lossy: int = 0
    violation: str = ""
    dearest: Cost = field(default=NOTHING, compare=False)
    slow: tuple[Cost, ...] = field(default=(), compare=False)

    @property
    def ok(self) -> bool:
        return not self.violation

    @property
    def broken(self) -> str:
        """The violation in one line."""
        return self.violation.splitlines()[-1] if self.violation else ""

    @property
    def invariant(self) -> str:
        """The invariant that broke, `liveness`, or `fault` if a broker or a client failed by itself."""
        found = INVARIANT.match(self.broken)
        return found[0] if found else "fault" if self.violation else ""


@dataclass(slots=True)
class Summary:
    """`faults` counts by kind; `cpu` are the processor seconds of each seed, if measured; `dearest` is the most
    expensive input of a broker.
    """

    seeds: int = 0
    seconds: float = 0.0
    steps: int = 0
    acked: int = 0
    lossy: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    failures: list[Outcome] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    dearest: Cost = NOTHING

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.seconds += outcome.seconds
        self.steps += outcome.steps
        self.acked += outcome.acked
        self.lossy += outcome.lossy
        self.dearest = max(self.dearest, outcome.dearest)
        for kind, count in outcome.counts.items():
            self.counts[kind] = self.counts.get(kind, 0) + count
        for kind in outcome.struck.values():
            self.faults[kind] = self.faults.get(kind, 0) + 1
        if not outcome.ok:
            self.failures.append(outcome)
