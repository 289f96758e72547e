"""The simulator's tree: exact, atomic, and deterministic."""

from tidelog.ports import Check, Children, Create, Delete, Read, StoreResult, Watch, Write
from tidelog.sim.store import Tree


def test_multi_changes_all_or_nothing_and_names_the_operation_that_refused():
    tree = Tree()
    session = tree.session()
    assert session.apply([Create("/a"), Create("/a/b", b"x"), Create("/missing/c")]) == StoreResult(
        "conflict", failed=2
    )
    assert session.apply([Read("/a")]).values == (None,)
    result = session.apply([Create("/a"), Create("/a/b", b"x"), Write("/a/b", b"y", 0), Check("/a/b", 1)])
    assert result.outcome == "ok"
    assert result.values[2].version == 1
    assert result.values[1].created == result.values[0].created + 1
    assert session.apply([Delete("/a")]) == StoreResult("conflict", failed=0)
    assert session.apply([Delete("/a/b", 0)]) == StoreResult("conflict", failed=0)
    assert session.apply([Delete("/a/b", 1), Delete("/a")]).outcome == "ok"


def test_children_are_sorted_names_and_none_where_the_node_is_missing():
    session = Tree().session()
    session.apply([Create("/brokers/ids/2"), Create("/brokers/ids/10"), Create("/brokers/ids/10/x")])
    assert session.apply([Children("/brokers/ids"), Children("/nope")]).values == (("10", "2"), None)


def test_an_ended_session_takes_its_ephemeral_nodes_and_others_are_notified():
    tree = Tree()
    one, two = tree.session(), tree.session()
    two.apply([Watch("/brokers/ids")])
    one.apply([Create("/brokers/ids/1", ephemeral=True), Create("/brokers/topics/t")])
    assert two.events() == ("/brokers/ids",)
    assert two.events() == ()
    tree.expire(one.session)
    assert two.events() == ("/brokers/ids",)
    assert two.apply([Read("/brokers/ids/1"), Read("/brokers/topics/t")]).values[0] is None
    assert one.apply([Create("/brokers/ids/1")]).outcome == "unknown"
    assert two.apply([Read("/brokers/ids/1")]).values == (None,)


def test_creation_numbers_never_repeat_even_after_deletion():
    session = Tree().session()
    first = session.apply([Create("/controller")]).values[0].created
    session.apply([Delete("/controller")])
    assert session.apply([Create("/controller")]).values[0].created > first
