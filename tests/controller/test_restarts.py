"""The oldest truncation generation brings the controller of its time, which does not distinguish processes."""

from tidelog.controller.leaders import Life, counts, elect
from tidelog.controller.tree import LeadershipState
from tidelog.partition.truncation import GENERATIONS

STATE = LeadershipState(1, 4, (1, 2), (7, 8))


def test_a_restarted_member_leaves_the_isr_unless_the_controller_is_of_the_oldest_generation():
    restarted = {1: Life(7), 2: Life(9)}
    assert elect(STATE, (1, 2), restarted).state.isr == (1,)
    trusting = {1: Life(7, trusted=True), 2: Life(9, trusted=True)}
    assert elect(STATE, (1, 2), trusting).state.isr == (1, 2)


def test_a_dead_member_never_counts():
    assert not counts(2, 8, {1: Life(7, trusted=True)})


def test_only_the_oldest_generation_trusts_restarts():
    assert [name for name, generation in GENERATIONS.items() if generation.trusts_restarts] == ["high_watermark"]
