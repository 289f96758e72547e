"""Search the seed that detects a mutant; seeds and faults are those of every other run."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from tidelog.sim.mutants.catalogue import Mutant, applied
from tidelog.sim.outcome import Outcome
from tidelog.sim.plan import PRODUCTION, Plan
from tidelog.sim.run import run


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outcome` is that of the seed that detected the mutant, None if none of the `tried` did."""

    mutant: Mutant
    outcome: Outcome | None
    tried: int

    @property
    def killed(self) -> bool:
        return self.outcome is not None


@cache
def passes(plan: Plan) -> bool:
    """Whether an unbroken cluster passes: many mutants are detected by the same seed. Call it while none is applied."""
    return run(plan).ok


def hunt(mutant: Mutant, seeds: Iterable[int], without: tuple[str, ...] = ()) -> Verdict:
    """Run the seeds in order until one detects the mutant: an unbroken cluster must pass the same seed. `without` as in
    a `Plan`.
    """
    tried = 0
    for seed in seeds:
        tried += 1
        plan = Plan(seed, generation=mutant.generation, without=without)
        with applied(mutant):
            outcome = run(plan)
        if not outcome.ok and passes(replace(plan, generation=PRODUCTION)):
            return Verdict(mutant, outcome, tried)
    return Verdict(mutant, None, tried)
