"""The moment at which a broker says to be woken is what its parts would answer if all of them were asked.

Method: seeds in which everything breaks and throttled partitions move; each broker's invariants hold after each step.
"""

import pytest

from tidelog.alarms import NEVER, Alarm, Alarms
from tidelog.sim.plan import Plan
from tidelog.sim.run import run


class Invariants:
    """A `world.Observer`."""

    def __init__(self):
        self.looked = 0

    def stepped(self, world, host):
        if host.node is not None:
            host.node.check_invariants()
            self.looked += 1

    def happened(self, world, host, event):
        """Only whole steps count."""

    def ended(self, world, host, how):
        """Nobody is left to be woken."""

    def tree_changed(self, world):
        """The metadata tree is of no interest here."""


@pytest.mark.parametrize("seed", [1003, 1006])
def test_alarms_are_what_the_parts_would_answer(seed):
    invariants = Invariants()
    outcome = run(Plan(seed, seconds=6, moves=True), lambda cluster: cluster.world.observers.append(invariants))
    assert outcome.ok, outcome.violation
    assert invariants.looked > 1000


class Part:
    def __init__(self):
        self.alarm = Alarm()


def test_the_first_of_all_alarms_follows_each():
    one, other = parts = [Part(), Part()]
    alarms = Alarms(parts)
    assert alarms.first == NEVER
    other.alarm.set(20)
    one.alarm.set(10)
    assert alarms.first == 10
    one.alarm.set(30)
    assert alarms.first == 20
    other.alarm.set(None)
    assert alarms.first == 30
    one.alarm.set(None)
    assert alarms.first == NEVER
    alarms.check_invariants()
