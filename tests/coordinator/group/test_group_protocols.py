import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordinator.group.harness import subscription
from tidelog.coordinator.group.classic.group import (
    ClassicMember,
    MemberProtocol,
    choose_protocol,
    common_protocols,
    read_topics,
)


def member(*names):
    return ClassicMember("m", None, "c", "h", 1, 1, "consumer", [MemberProtocol(name, b"") for name in names])


lists = st.lists(st.permutations(list("abc")).map(lambda names: ["common", *names]), min_size=1, max_size=6)


@given(lists, st.randoms(use_true_random=False))
def test_the_choice_is_one_that_all_support_and_none_has_more_votes(wishes, random):
    for names in wishes:
        random.shuffle(names)
        del names[1 + names.index("common") :]
    members = [member(*names) for names in wishes]
    common = set.intersection(*map(set, wishes))
    assert common_protocols(members) == common
    votes = [next(name for name in names if name in common) for names in wishes]
    assert votes.count(choose_protocol(members)) == max(votes.count(name) for name in common)


def test_topics_are_read_from_every_version_of_a_subscription():
    for version in range(4):
        assert read_topics(subscription("t", "ü", version=version)) == {"t", "ü"}


def test_a_subscription_may_end_with_its_last_topic():
    assert read_topics(subscription("t", "")[:-4]) == {"t", ""}


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x01",
        b"\x00\x00\x00\x00\x00\x01\x00\x05t",
        b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
    ],
)
def test_metadata_that_is_no_subscription_says_nothing(metadata):
    assert read_topics(metadata) is None


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(metadata):
    found = read_topics(metadata)
    assert found is None or isinstance(found, set)
