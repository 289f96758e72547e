"""The rounds of a seed: the same every time, every kind sooner or later, and never more than the rules allow."""

from collections import Counter
from itertools import islice

import pytest

from tidelog.check.chaos.faults import FAULTS
from tidelog.check.chaos.schedule import FULL_DISK, KILL, KILL_ALL, KINDS, LASTS_S, rounds


def drawn(seed, brokers=3, kinds=tuple(KINDS), count=200):
    return list(islice(rounds(seed, brokers, kinds), count))


def test_a_seed_gives_the_same_rounds_and_another_gives_others():
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_every_kind_comes_and_has_a_deed():
    counts = Counter(fault.kind for each in drawn(1) for fault in each.faults)
    assert set(counts) == set(KINDS) == set(FAULTS)
    assert counts[KILL_ALL] < counts[KILL]


@pytest.mark.parametrize("brokers", [1, 2, 3, 5])
def test_no_broker_has_two_faults_and_one_disk_at_most_is_full(brokers):
    for each in drawn(3, brokers):
        done_to = [broker for fault in each.faults for broker in fault.brokers]
        assert len(done_to) == len(set(done_to))
        assert set(done_to) <= set(range(brokers))
        assert sum(fault.kind == FULL_DISK for fault in each.faults) <= 1
        assert LASTS_S[0] <= each.lasts_s <= LASTS_S[1]


def test_only_what_is_allowed_is_drawn():
    assert {fault.kind for each in drawn(2, kinds=[KILL]) for fault in each.faults} == {KILL}
    assert drawn(2, kinds=[]) == []
