"""The server's assignors: complete, only to subscribers, even, and close to what was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.coordinator.group.consumer.assignors import ASSIGNORS, Spec, Subscriber

TOPICS = [bytes([number]) * 16 for number in range(4)]
MEMBERS = [f"m{number}" for number in range(6)]

assign_uniform, assign_range = ASSIGNORS["uniform"], ASSIGNORS["range"]


@st.composite
def specs(draw, *, same=False):
    counts = {topic: draw(st.integers(1, 9)) for topic in draw(st.sets(st.sampled_from(TOPICS), min_size=1))}
    some = st.sets(st.sampled_from(sorted(counts)), min_size=0 if not same else 1).map(frozenset)
    everybodys = draw(some)
    members = {
        name: Subscriber(everybodys if same else draw(some), instance_id=draw(st.sampled_from((None, f"i-{name}"))))
        for name in draw(st.sets(st.sampled_from(MEMBERS), min_size=1))
    }
    subscribed = {topic for member in members.values() for topic in member.topics}
    return Spec(members, {topic: count for topic, count in counts.items() if topic in subscribed})


def check(spec, assignment):
    """Every partition that has a subscriber belongs to exactly one of them."""
    assert assignment.keys() == spec.members.keys()
    given = [place for places in assignment.values() for place in places]
    assert sorted(given) == sorted((topic, n) for topic, count in spec.partitions.items() for n in range(count))
    for name, places in assignment.items():
        assert {topic for topic, _ in places} <= spec.members[name].topics


def following(spec, assignment, gone=(), new=()):
    """The same group later, with members gone and others who subscribe as somebody did."""
    members = {
        name: member._replace(previous=assignment[name]) for name, member in spec.members.items() if name not in gone
    }
    members |= {name: Subscriber(topics) for name, topics in new}
    subscribed = {topic for member in members.values() for topic in member.topics}
    return Spec(members, {topic: count for topic, count in spec.partitions.items() if topic in subscribed})


def sizes(assignment):
    return [len(places) for places in assignment.values()]


def is_balanced(spec, assignment):
    """No partition could go to a member who has two less."""
    return not any(
        len(assignment[giver]) - len(assignment[taker]) >= 2 and topic in spec.members[taker].topics
        for giver in assignment
        for topic, _ in assignment[giver]
        for taker in assignment
    )


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(spec=specs())
def test_every_partition_is_with_one_subscriber_and_the_same_gives_the_same(assign, spec):
    check(spec, assign(spec))
    members = dict(reversed(spec.members.items()))
    partitions = dict(reversed(spec.partitions.items()))
    assert assign(Spec(members, partitions)) == assign(spec)


@given(specs(same=True), st.integers(0, 2))
def test_uniform_is_even_and_moves_no_more_than_it_must(spec, newcomers):
    first = assign_uniform(spec)
    assert max(sizes(first)) - min(sizes(first)) <= 1
    topics = next(iter(spec.members.values())).topics
    later = following(spec, first, new=[(f"n{number}", topics) for number in range(newcomers)])
    second = assign_uniform(later)
    check(later, second)
    assert max(sizes(second)) - min(sizes(second)) <= 1
    moved = sum(len(first[name] - second[name]) for name in first)
    assert moved == sum(len(second[f"n{number}"]) for number in range(newcomers))


@given(specs(same=True), st.data())
def test_uniform_lets_those_who_stay_keep_all_they_had(spec, data):
    first = assign_uniform(spec)
    gone = data.draw(st.sampled_from(sorted(spec.members)))
    later = following(spec, first, gone=[gone])
    for name, places in assign_uniform(later).items() if later.members else ():
        assert first[name] <= places


@given(specs())
def test_uniform_leaves_no_move_that_would_even_out(spec):
    first = assign_uniform(spec)
    assert is_balanced(spec, first)
    assert assign_uniform(following(spec, first)) == first


@given(specs(), st.data())
def test_uniform_stays_balanced_as_members_come_and_go(spec, data):
    first = assign_uniform(spec)
    gone = data.draw(st.sampled_from(sorted(spec.members)))
    later = following(spec, first, gone=[gone], new=[("n", frozenset(spec.partitions))])
    second = assign_uniform(later)
    check(later, second)
    assert is_balanced(later, second)


def test_what_is_gone_or_no_longer_subscribed_to_is_not_kept():
    a, b = TOPICS[:2]
    spec = Spec({"m": Subscriber(frozenset({a}), frozenset({(a, 0), (a, 7), (b, 0)}))}, {a: 2})
    assert assign_uniform(spec) == {"m": {(a, 0), (a, 1)}}


RANGES = [
    ({"a": "tu", "b": "tu"}, {"a": {"t0", "t1", "u0", "u1"}, "b": {"t2", "u2"}}),
    ({"a": "tu", "b": "t", "c": "tu"}, {"a": {"t0", "u0", "u1"}, "b": {"t1"}, "c": {"t2", "u2"}}),
    ({"a": "t", "b": "t", "c": "t", "d": "t"}, {"a": {"t0"}, "b": {"t1"}, "c": {"t2"}, "d": set()}),
]


@pytest.mark.parametrize(("subscriptions", "expected"), RANGES)
def test_range_gives_the_same_numbers_of_each_topic(subscriptions, expected):
    ids = {"t": TOPICS[0], "u": TOPICS[1]}
    spec = Spec(
        {name: Subscriber(frozenset(ids[topic] for topic in topics)) for name, topics in subscriptions.items()},
        {ids[topic]: 3 for topics in subscriptions.values() for topic in topics},
    )
    names = {topic: name for name, topic in ids.items()}
    found = {name: {f"{names[topic]}{n}" for topic, n in places} for name, places in assign_range(spec).items()}
    assert found == expected


def test_range_goes_by_the_names_of_static_members():
    """They come first, and a new process gets what the one before it had."""
    topics = frozenset({TOPICS[0]})

    def give(first, second):
        spec = Spec(
            {
                first: Subscriber(topics, instance_id="i1"),
                "a": Subscriber(topics),
                second: Subscriber(topics, instance_id="i0"),
            },
            {TOPICS[0]: 3},
        )
        return {name: {n for _, n in places} for name, places in assign_range(spec).items()}

    assert give("x", "y") == {"y": {0}, "x": {1}, "a": {2}}
    assert give("y", "x") == {"x": {0}, "y": {1}, "a": {2}}


def test_what_one_topic_frees_another_may_balance_in_the_next_round():
    first, second = TOPICS[:2]
    members = {
        "a": Subscriber(frozenset({first}), frozenset((first, number) for number in range(4))),
        "b": Subscriber(frozenset({first, second}), frozenset((second, number) for number in range(4))),
        "c": Subscriber(frozenset({second})),
    }
    assert sizes(assign_uniform(Spec(members, {first: 4, second: 4}))) == [3, 3, 2]
