"""The command that repeats a run, and what an outcome says of it."""

import shlex

import pytest

from tidelog.cli.simulate.simulate_command import simulate
from tidelog.sim.outcome import Outcome, Summary
from tidelog.sim.plan import Plan

PLANS = [
    Plan(3),
    Plan(0, generation="kip_279", seconds=2.5),
    Plan(5, kinds=("kill", "pause"), only=(1, 17), brokers=3, partitions=1, without=("operator", "group")),
    Plan(7, only=()),
    Plan(8, moves=True),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_command_of_a_plan_is_the_plan(plan):
    _, _, *words = shlex.split(plan.command())
    given = simulate.make_context("simulate", words).params
    kept = {name: value for name, value in given.items() if name in Plan.__slots__}
    assert Plan(generation=given["truncation"], **kept) == plan


@pytest.mark.parametrize(
    ("violation", "invariant"),
    [("", ""), ("a transcript\nI20: cut", "I20"), ("liveness: within 3 s", "liveness"), ("KeyError('x')", "fault")],
)
def test_an_outcome_names_the_invariant(violation, invariant):
    assert Outcome(Plan(1), violation=violation).invariant == invariant


def test_a_summary_adds_up():
    summary = Summary()
    summary.add(Outcome(Plan(1), seconds=2, acked=3, counts={"kill": 1}, struck={1: "kill", 2: "kill"}))
    summary.add(Outcome(Plan(2), seconds=3, acked=4, counts={"kill": 2}, lossy=1, violation="I1"))
    assert (summary.seeds, summary.seconds, summary.acked, summary.lossy) == (2, 5, 7, 1)
    assert (summary.counts, summary.faults) == ({"kill": 3}, {"kill": 2})
    assert [outcome.plan.seed for outcome in summary.failures] == [2]
