from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller.placement import Start, alternate_racks, check_assignment, place
from tidelog.errors import ApiError, ErrorCode

racks_of = st.dictionaries(st.integers(0, 20), st.sampled_from("abcd"), min_size=1, max_size=9)


def test_the_round_of_kafkas_documentation():
    """Ten partitions with three replicas on five brokers."""
    placed = place(dict.fromkeys(range(5)), 10, 3, Start(0, 0))
    assert placed == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_the_racks_of_kafkas_documentation_alternate():
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert alternate_racks(racks) == [0, 3, 1, 5, 4, 2]
    placed = place(racks, 6, 3, Start(0, 0))
    assert placed == [(0, 3, 1), (3, 1, 5), (1, 5, 4), (5, 4, 2), (4, 2, 0), (2, 0, 3)]


@given(racks_of, st.booleans(), st.integers(1, 40), st.integers(1, 5), st.integers(0, 50), st.integers(0, 50))
def test_replicas_are_distinct_and_leaders_even(racks, aware, partitions, factor, index, shift):
    known = racks if aware else dict.fromkeys(racks)
    factor = min(factor, len(racks))
    placed = place(known, partitions, factor, Start(index, shift))
    assert len(placed) == partitions
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(racks)
        if aware:
            assert len({racks[broker] for broker in replicas}) == min(factor, len(set(racks.values())))


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 30), st.integers(0, 11), st.data())
def test_an_extension_continues_the_round(brokers, before, after, index, data):
    """Placing some partitions, then more from the next number on, is placing all of them at once."""
    factor = data.draw(st.integers(1, brokers))
    racks = dict.fromkeys(range(brokers))
    whole = place(racks, before + after, factor, Start(index, 0))
    later_shift = (before - 1) // brokers  # rounds begun by the partitions before
    assert place(racks, before, factor, Start(index, 0)) == whole[:before]
    assert place(racks, after, factor, Start(index, later_shift), before) == whole[before:]


def test_one_rack_missing_makes_placement_blind_to_racks():
    blind = place({0: "a", 1: None, 2: "a"}, 3, 2, Start(0, 0))
    assert blind == place(dict.fromkeys(range(3)), 3, 2, Start(0, 0))


@pytest.mark.parametrize("brokers", [0, 2])
def test_too_few_brokers(brokers):
    with pytest.raises(ApiError) as refusal:
        place(dict.fromkeys(range(brokers)), 1, 3, Start(0, 0))
    assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("replicas", "factor"), [([], None), ([1, 9], None), ([1, 1], None), ([1, 2], 3), ([1, 2, 3], 2)]
)
def test_a_bad_assignment_by_hand(replicas, factor):
    with pytest.raises(ApiError) as refusal:
        check_assignment(replicas, dict.fromkeys((1, 2, 3)), factor)
    assert refusal.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_good_assignment_by_hand():
    check_assignment([2, 1], dict.fromkeys((1, 2, 3)), None)
    check_assignment([2, 1], dict.fromkeys((1, 2, 3)), 2)
