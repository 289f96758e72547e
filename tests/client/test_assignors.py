"""Who reads what: every partition has one reader, the shares are even, and the sticky ones move as little as can be."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.group.assignors import ASSIGNORS, Subscription, are_cooperative, assign_cooperatively, assign_sticky
from tidelog.client.group.classic_requests import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from tidelog.errors import ProtocolViolation
from tidelog.model import TopicPartition

groups = st.tuples(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 9), min_size=1),
    st.dictionaries(
        st.sampled_from([f"m{number}" for number in range(6)]),
        st.sets(st.sampled_from(["a", "b", "c"]), min_size=1),
        min_size=1,
    ),
)


def subscriptions(members, owned=None):
    held = owned or {}
    return {name: Subscription(frozenset(topics), frozenset(held.get(name, ())), 3) for name, topics in members.items()}


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(group=groups)
def test_every_wanted_partition_has_exactly_one_reader_who_wants_it(name, group):
    partitions, members = group
    assignments = ASSIGNORS[name].assign(partitions, subscriptions(members))
    given_out = [partition for owned in assignments.values() for partition in owned]
    wanted = {topic for topics in members.values() for topic in topics}
    assert Counter(given_out) == {
        TopicPartition(topic, number): 1
        for topic, count in partitions.items()
        if topic in wanted
        for number in range(count)
    }
    assert all(partition.topic in members[member] for member, owned in assignments.items() for partition in owned)
    assert assignments.keys() == members.keys()


@pytest.mark.parametrize("name", ["roundrobin", "sticky", "cooperative-sticky"])
@given(st.integers(1, 30), st.integers(1, 7))
def test_shares_of_equal_members_differ_by_one_at_most(name, count, members):
    assignments = ASSIGNORS[name].assign({"a": count}, subscriptions({f"m{n}": {"a"} for n in range(members)}))
    shares = [len(owned) for owned in assignments.values()]
    assert max(shares) - min(shares) <= 1


def test_ranges_are_neighbours_topic_by_topic():
    assignments = ASSIGNORS["range"].assign({"a": 3, "b": 2}, subscriptions({"x": {"a", "b"}, "y": {"a", "b"}}))
    assert assignments["x"] == [("a", 0), ("a", 1), ("b", 0)]
    assert assignments["y"] == [("a", 2), ("b", 1)]


def test_static_members_come_first_in_the_order_of_their_names():
    members = {
        "x": Subscription(frozenset({"a"})),
        "y": Subscription(frozenset({"a"}), instance_id="2"),
        "z": Subscription(frozenset({"a"}), instance_id="1"),
    }
    assignments = ASSIGNORS["range"].assign({"a": 3}, members)
    assert {name: owned[0].partition for name, owned in assignments.items()} == {"z": 0, "y": 1, "x": 2}


@given(groups)
def test_a_sticky_assignment_stays_when_nothing_changes(group):
    partitions, members = group
    first = assign_sticky(partitions, subscriptions(members))
    assert assign_sticky(partitions, subscriptions(members, first)) == first
    assert {m: sorted(o) for m, o in assign_cooperatively(partitions, subscriptions(members, first)).items()} == first


@given(st.integers(2, 30), st.integers(2, 6))
def test_when_a_member_leaves_the_others_keep_what_they_have(count, members):
    before = assign_sticky({"a": count}, subscriptions({f"m{n}": {"a"} for n in range(members)}))
    left = {f"m{n}": {"a"} for n in range(1, members)}
    after = assign_sticky({"a": count}, subscriptions(left, before))
    assert all(set(before[member]) <= set(after[member]) for member in left)


@given(st.integers(2, 30), st.integers(1, 6))
def test_a_new_member_of_a_cooperative_group_waits_until_partitions_are_given_up(count, members):
    before = assign_sticky({"a": count}, subscriptions({f"m{n}": {"a"} for n in range(members)}))
    grown = {f"m{n}": {"a"} for n in range(members + 1)}
    during = assign_cooperatively({"a": count}, subscriptions(grown, before))
    assert during[f"m{members}"] == []
    assert all(set(during[member]) <= set(before[member]) for member in before)
    after = assign_cooperatively({"a": count}, subscriptions(grown, during))
    shares = [len(owned) for owned in after.values()]
    assert sum(shares) == count
    assert max(shares) - min(shares) <= 1


def test_of_two_who_claim_a_partition_the_later_generation_keeps_it():
    both = frozenset({TopicPartition("a", 0)})
    members = {"old": Subscription(frozenset({"a"}), both, 4), "new": Subscription(frozenset({"a"}), both, 5)}
    assert assign_sticky({"a": 1}, members)["new"] == [("a", 0)]


def test_members_are_cooperative_only_if_all_they_offer_is():
    assert are_cooperative(["cooperative-sticky"])
    assert not are_cooperative(["range", "cooperative-sticky"])


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_a_subscription_reads_back(name):
    owned = frozenset({TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)})
    mine = Subscription(frozenset({"a", "b"}), owned, 7)
    raw = encode_subscription(ASSIGNORS[name], mine, owned)
    assert decode_subscription(ASSIGNORS[name], raw) == mine
    assert decode_assignment(encode_assignment(owned)) == owned
    assert decode_assignment(b"") == frozenset()


def test_kafkas_own_client_would_read_a_subscription():
    """The bytes that Kafka 4.3.1's ConsumerProtocol writes for topic `t`, nothing owned, generation -1."""
    raw = encode_subscription(ASSIGNORS["range"], Subscription(frozenset({"t"})), ())
    assert raw == bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 ffffffff ffff")


@pytest.mark.parametrize("raw", [b"\0", b"\0\0\0\0", b"\0\x03\x7f\xff\xff\xff"])
def test_what_is_no_subscription_is_refused(raw):
    with pytest.raises(ProtocolViolation):
        decode_subscription(ASSIGNORS["range"], raw)
    with pytest.raises(ProtocolViolation):
        decode_assignment(raw)
