"""A failing run is made as small as it can be while it fails in the same way."""

from tidelog.sim.outcome import Outcome
from tidelog.sim.plan import Plan
from tidelog.sim.shrink import fewer, shrink
from tidelog.sim.workload import LATER, PARTS

FAULTS = dict.fromkeys(range(1, 41), "kill")


def outcome(plan, violation):
    struck = {number: kind for number, kind in FAULTS.items() if plan.only is None or number in plan.only}
    return Outcome(plan, struck=struck, violation=violation)


class Needs:
    """A run that breaks I9 where some faults strike, an operator is at work and there is time enough."""

    def __init__(self, *faults, seconds=5.0):
        self.faults = set(faults)
        self.seconds = seconds
        self.runs = 0

    def __call__(self, plan):
        self.runs += 1
        found = outcome(plan, "")
        if "operator" in plan.without or plan.seconds < self.seconds:
            return outcome(plan, "I4: something else breaks")
        return outcome(plan, "seed 1\nI9: lost") if self.faults <= set(found.struck) else found


def test_only_what_the_failure_needs_is_left():
    run = Needs(7, 23)
    smallest = shrink(run(Plan(1)), run)
    assert smallest.invariant == "I9"
    assert smallest.plan.only == (7, 23)
    assert smallest.plan.without == (*(part for part in PARTS if part != "operator"), *LATER)
    assert (smallest.plan.brokers, smallest.plan.partitions) == (3, 1)
    assert 5.0 <= smallest.plan.seconds < 6.0


def test_no_fault_at_all_is_tried_too():
    run = Needs()
    assert shrink(run(Plan(1)), run).plan.only == ()


def test_attempts_are_bounded_and_reported():
    run, told = Needs(7, 23), []
    shrink(run(Plan(1)), run, lambda smallest, attempts: told.append(attempts), attempts=12)
    assert told == list(range(1, 13))
    assert run.runs == 13


def test_faults_go_in_halves_first_then_one_by_one():
    assert list(fewer((1, 2, 3, 4))) == [(3, 4), (1, 2), (2, 3, 4), (1, 3, 4), (1, 2, 4), (1, 2, 3)]
    assert list(fewer((5,))) == [()]
    assert list(fewer(())) == []
