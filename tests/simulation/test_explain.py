"""`explain` and the simulator: what its looks must not change. What it finds in drawn seeds is in test_seeds.py."""

from tests.simulation.explaining import Explained
from tidelog.sim.plan import Plan
from tidelog.sim.run import run


def test_a_run_is_the_same_whether_or_not_it_is_explained():
    plan, explained = Plan(1011, seconds=8), Explained()
    outcome = run(plan, explained.watch)
    assert outcome.ok, outcome.violation
    explained.check_health()
    assert outcome.digest == run(plan).digest
