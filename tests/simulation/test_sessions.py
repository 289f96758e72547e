"""Seeds whose clients read and write in one transaction, speak older transaction versions, or are members of the
consumer protocol or static ones, while everything may break.

Goal: each record is copied exactly once, a position counts if and only if its transaction does, and whoever lost a
partition or its place in a group commits nothing more (I23, I26, I28, I29). Method: seeds that draw these parts; the
invariants are looked at after each step, what was read is held against what was told at the end.
"""

import pytest

from tidelog.sim.coverage import states
from tidelog.sim.plan import SHARES, Plan, dice_of
from tidelog.sim.run import run
from tidelog.sim.workload import CLIENTS, LATER, PARTS

COPIED = (
    "records copied",
    "copies aborted",
    "offsets wait for a marker",
    "offsets of a transaction committed or aborted",
)
REACHED = {
    60: COPIED,
    12984: (*COPIED, "group downgraded"),
    10657: ("group upgraded", "group downgraded", "classic member of a consumer group", "consumer member fenced"),
    10662: ("old producer ended a transaction", "old producer added partitions", "old producer verified"),
    10650: ("static consumer member replaced", "group upgraded"),
    10670: ("instance ID in use",),
    10400: ("static member replaced", "rejected: classic member"),
}
"""Seeds and the states that they come to."""


@pytest.mark.parametrize("seed", sorted(REACHED))
def test_seeds_reach_their_states(seed):
    outcome = run(Plan(seed, without=tuple(part for part in LATER if part not in CLIENTS)))
    assert outcome.ok, outcome.violation
    reached = states(outcome.counts)
    assert [name for name in REACHED[seed] if not reached[name]] == []


def test_a_part_that_is_not_drawn_changes_nothing():
    seed = next(seed for seed in range(100) if not any(dice_of(seed, part) for part in CLIENTS))
    assert run(Plan(seed, seconds=3)).digest == run(Plan(seed, seconds=3, without=CLIENTS)).digest


def test_parts_with_dice_of_their_own_can_be_left_out():
    assert SHARES.keys() <= {*PARTS, *LATER}
    assert all(dice_of(seed, part, (part,)) is None for part in SHARES for seed in range(20))
