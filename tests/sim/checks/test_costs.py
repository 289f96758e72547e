"""I49 can be broken: how much CPU time an input takes, whatever else the machine does."""

import gc

import pytest

from tests.sim.ping import PingNode
from tidelog.sim.checks.costs import LIMIT, RUNS, Cost, Meter, describe_slow, slow_in_both
from tidelog.sim.faults import SECOND
from tidelog.sim.world import World

SLOW = LIMIT * 1.2
STEP = 77


class Clock:
    """Processor seconds, as a test has them pass."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def started(spent, at):
    """A world whose brokers' inputs cost nothing but that of one step."""
    clock = Clock()

    class Busy(PingNode):
        def wake(self, now):
            if self.host.world.trace.step == at:
                clock.seconds += spent
            return super().wake(now)

    world = World(1, Busy)
    world.meter = Meter(clock)
    world.start()
    world.run(SECOND)
    return world


def wakes():
    """A step at which a broker is woken."""
    steps = []

    class SeenRecords(PingNode):
        def wake(self, now):
            steps.append(self.host.world.trace.step)
            return super().wake(now)

    world = World(1, SeenRecords)
    world.start()
    world.run(SECOND)
    return steps[-1]


def test_an_input_above_the_limit_is_named_and_the_digest_does_not_know_of_it():
    step = wakes()
    quick, slow = started(LIMIT * 0.8, step), started(SLOW, step)
    assert (quick.meter.slow, slow.meter.slow) == ([], [Cost(SLOW, "wake", step)])
    assert slow.meter.most.kind == quick.meter.most.kind == "wake"
    assert slow.trace.digest == quick.trace.digest


def test_requests_are_named():
    meter = Meter()
    frames = [memoryview(key.to_bytes(2, "big")) for key in (1, 1, 0, 4_000)]
    meter.end(-1.0, 5, "receive", (1, frames))
    assert meter.most.kind == "receive Fetch, Produce, 4000"
    assert str(Cost(0.0604, "wake", 5)) == "60 ms (wake, step 5)"


@pytest.mark.parametrize("collects", [True, False])
def test_no_garbage_is_collected_while_it_is_measured(collects):
    meter, before = Meter(), gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        begun = meter.begin()
        assert not gc.isenabled()
        meter.end(begun, 1, "wake", ())
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()


def test_what_is_slow_in_one_run_only_is_the_machines():
    slow = [Cost(SLOW, "wake", STEP), Cost(SLOW, "start", 1)]
    assert slow_in_both(slow, [Cost(0.3, "wake", STEP)]) == [Cost(SLOW, "wake", STEP)]
    assert describe_slow(slow, list) == ""
    runs = iter([slow, []])
    assert describe_slow(slow, lambda: next(runs)) == ""


def test_what_is_slow_in_every_run_is_the_brokers():
    runs = []

    def run():
        runs.append(1)
        return [Cost(0.3, "wake", STEP), Cost(0.4, "start", len(runs))]

    found = describe_slow([Cost(SLOW, "wake", STEP), Cost(0.9, "start", 0)], run)
    assert found == f"I49: an input took 60 ms (wake, step {STEP}) of CPU time in each of {RUNS} runs"
    assert len(runs) == RUNS - 1
