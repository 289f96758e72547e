"""The tree of the quorum does what the store of the simulator does, and what one record may do.

- Same operations, same results, same watches, whatever the order (`sim.store.Tree` passes the conformance tests of SQLite and
  ZooKeeper).
- I38: a tree that continues from a snapshot is the tree that applied every record.
- I44: each list of changes counts at one offset or none, however often and late its record comes.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.processor_time import without_collections
from tests.quorum.trees import Both, Replica, through_bytes
from tidelog.ports import ANY_VERSION, Check, Children, Create, Delete, Read, Watch, Write
from tidelog.quorum.records import MOST_CHANGES, Foreign, SessionEnded, SessionOpened, TreeChanges, decode, encode
from tidelog.quorum.tree import Tree, Watches

SESSIONS = 3
paths = st.sampled_from(
    ["/brokers", "/cluster", "/cluster/id", "/cluster/id/x", "/admin/a", "/controller", "/brokers/ids/1", "/new"]
)
versions = st.sampled_from([ANY_VERSION, 0, 0, 1, 2])
contents = st.sampled_from([b"", b"1", b"other"])
change = st.one_of(
    st.builds(Create, paths, contents, st.booleans()),
    st.builds(Create, paths, contents),
    st.builds(Write, paths, contents, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, st.integers(0, 2)),
)
query = st.one_of(
    st.builds(Read, paths), st.builds(Children, paths | st.just("/")), st.builds(Watch, paths | st.just("/"))
)
who = st.integers(0, SESSIONS - 1)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), who, st.lists(change, max_size=4)),
        st.tuples(st.just("change"), who, st.lists(change, max_size=1)),
        st.tuples(st.just("query"), who, st.lists(query, max_size=4)),
        st.tuples(st.just("end"), who, st.none()),
    ),
    max_size=20,
)


@given(steps)
def test_the_same_operations_have_the_same_results_and_watches_as_in_the_store_that_exists(taken):
    both = Both(SESSIONS)
    for kind, whose, operations in taken:
        if kind == "change":
            both.change(whose, operations)
        elif kind == "query":
            both.query(whose, operations)
        else:
            both.end(whose)
    for each in range(SESSIONS):
        both.query(each, [])


@given(steps, st.integers(0, 20))
def test_a_tree_that_continues_from_a_snapshot_is_the_one_that_applied_every_record(taken, cut):
    whole, parted = Replica(), Replica()
    sessions = [(whole.open(), parted.open()) for _ in range(SESSIONS)]
    for index, (kind, whose, operations) in enumerate(taken):
        if index == cut:
            loaded = Tree()
            for record in parted.tree.picture().records():
                loaded.load(through_bytes(record))
            parted.tree = loaded
            parted.tree.check_invariants()
        ours, theirs = sessions[whose]
        if kind == "change":
            assert whole.change(ours, operations) == parted.change(theirs, operations)
        elif kind == "end":
            assert whole.end(ours) == parted.end(theirs)
    assert whole.tree.picture() == parted.tree.picture()
    assert list(whole.tree.nodes) == list(parted.tree.nodes), "snapshots of all nodes have the same bytes"


@given(st.lists(st.tuples(who, st.lists(change, max_size=3)), max_size=12), st.data())
def test_each_list_of_changes_counts_once_or_never_however_often_its_record_comes(sent, data):
    replica = Replica()
    sessions = [replica.open() for _ in range(SESSIONS)]
    numbered = [TreeChanges(sessions[whose], number, tuple(changes)) for number, (whose, changes) in enumerate(sent, 1)]
    arriving = data.draw(st.lists(st.sampled_from(numbered), max_size=20)) if numbered else []
    counted, newest = set(), dict.fromkeys(sessions, 0)
    for record in arriving:
        before = replica.tree.picture()
        applied = replica.append(record)
        assert (applied.verdict == "late") == (record.number <= newest[record.session])
        newest[record.session] = max(newest[record.session], record.number)
        if applied.verdict == "ok":
            assert (record.session, record.number) not in counted
            counted.add((record.session, record.number))
        else:
            assert replica.tree.nodes == before.nodes
            assert applied.changed == ()


def test_created_nodes_are_numbered_by_the_offset_of_their_record():
    replica = Replica()
    session = replica.open()
    applied = replica.change(session, [Create("/a", b""), Create("/a/b", b"", ephemeral=True)])
    assert [node.created for node in applied.values] == [replica.offset] * 2
    assert [node.session for node in applied.values] == [0, session]
    (written,) = replica.change(session, [Write("/a", b"new")]).values
    assert written == applied.values[0]._replace(data=b"new", version=1)


def test_the_cluster_itself_writes_without_numbers_but_has_no_ephemeral_nodes():
    tree = Tree()
    assert tree.apply(1, TreeChanges(0, 0, (Create("/controller", b"1"),))).verdict == "ok"
    assert tree.apply(2, TreeChanges(0, 0, (Write("/controller", b"2"),))).verdict == "ok"
    assert tree.apply(3, TreeChanges(0, 0, (Check("/controller", 1), Create("/x", b"", True)))).failed == 1


def registration(broker: int, incarnation: bytes, replaces: int = 0, content: bytes = b""):
    return SessionOpened(broker, incarnation * 16, (), replaces, (Create(f"/{broker}", content, True),))


def test_a_registration_is_one_record_that_ends_the_former_session():
    tree = Tree()
    (node,) = tree.apply(7, registration(1, b"a")).values
    assert (node.created, node.session) == (7, 7)
    applied = tree.apply(9, registration(1, b"b", replaces=7))
    assert (applied.verdict, applied.values[0].created, applied.changed) == ("ok", 9, ("/1",))
    assert (list(tree.sessions), tree.session_of(1).session) == ([9], 9)
    assert tree.apply(10, TreeChanges(7, 1, ())).verdict == "session over"
    assert tree.apply(11, SessionEnded(7)).verdict == "session over"
    tree.check_invariants()


def test_a_registration_that_comes_twice_finds_its_own_session():
    tree = Tree()
    first = tree.apply(7, registration(1, b"a"))
    again = tree.apply(8, registration(1, b"a"))
    assert (again.verdict, again.values, again.changed) == ("ok", first.values, ())
    assert list(tree.sessions) == [7]


def test_a_registration_that_does_not_know_the_newest_session_is_refused():
    tree = Tree()
    tree.apply(7, registration(1, b"a"))
    before = tree.picture()
    for replaces in (0, 6):
        refused = tree.apply(8, registration(1, b"b", replaces))
        assert (refused.verdict, refused.failed, refused.changed) == ("conflict", 0, ())
    assert tree.apply(9, SessionOpened(1, b"b" * 16, (), 0, ())).verdict == "conflict"
    assert tree.apply(9, SessionOpened(2, b"b" * 16, (), 7, ())).verdict == "conflict"
    assert tree.picture() == before


def test_a_registration_that_was_sent_before_the_end_of_a_later_session_is_refused():
    """Its process is dead: a session that it opened now would fence nobody until its lease is over."""
    tree = Tree()
    assert tree.apply(5, registration(1, b"a")).verdict == "ok"
    assert tree.apply(6, SessionEnded(5)).verdict == "ok"
    assert tree.apply(7, registration(1, b"a")).verdict == "conflict"
    assert tree.apply(8, registration(1, b"b", replaces=5)).verdict == "ok"
    assert tree.apply(9, SessionEnded(8)).verdict == "ok"
    again = Tree()
    for record in tree.picture().records():
        again.load(through_bytes(record))
    for each in (tree, again):
        assert (each.last_session_of(1), each.session_of(1)) == (8, None)
        assert each.apply(10, registration(1, b"c", replaces=5)).verdict == "conflict"
        assert each.apply(11, registration(1, b"c", replaces=8)).verdict == "ok"
        each.check_invariants()


def test_pictures_of_the_same_tree_are_equal_in_whatever_order_sessions_began_and_ended():
    whole = Tree()
    for offset, broker in ((10, 1), (20, 2)):
        whole.apply(offset, SessionOpened(broker, bytes([broker]) * 16, (), 0, ()))
    whole.apply(30, SessionEnded(10))
    loaded = Tree()
    for record in whole.picture().records():
        loaded.load(record)
    for tree in (whole, loaded):
        tree.apply(40, SessionEnded(20))
    assert whole.picture() == loaded.picture()


def test_an_empty_list_is_a_fence():
    replica = Replica()
    session = replica.open()
    create = (Create("/admin/a", b""),)
    assert replica.append(TreeChanges(session, 2, ())).verdict == "ok"
    assert replica.append(TreeChanges(session, 1, create)).verdict == "late"
    assert replica.append(TreeChanges(session, 3, create)).verdict == "ok"


def test_a_registration_tells_of_all_ephemeral_nodes_of_the_former_session():
    tree = Tree()
    tree.apply(7, registration(1, b"a"))
    tree.apply(8, TreeChanges(7, 1, (Create("/other", b"", True),)))
    assert sorted(tree.apply(9, registration(1, b"b", replaces=7)).changed) == ["/1", "/other"]
    assert list(tree.nodes) == ["/1"]


def test_a_registration_whose_changes_are_refused_leaves_the_former_session_and_its_nodes():
    tree = Tree()
    tree.apply(7, registration(1, b"a"))
    tree.apply(8, TreeChanges(7, 1, (Create("/2", b"", True), Create("/3"))))
    before = tree.picture()
    changes = (Create("/1", b"", True), Create("/3"))
    refused = tree.apply(9, SessionOpened(1, b"b" * 16, (), 7, changes))
    assert (refused.verdict, refused.failed) == ("conflict", 1)
    assert tree.picture() == before
    tree.check_invariants()


def test_records_of_other_kinds_change_nothing():
    tree = Tree()
    assert tree.apply(1, Foreign(2)).changed == ()
    assert not tree.nodes


def test_a_picture_stays_as_it_was():
    replica = Replica()
    session = replica.open()
    replica.change(session, [Create("/a", b"1", True)])
    picture = replica.tree.picture()
    replica.change(session, [Write("/a", b"2"), Create("/b")])
    replica.end(session)
    assert picture.nodes["/a"].data == b"1"
    assert "/b" not in picture.nodes
    assert [each.number for each in picture.sessions] == [1]


@pytest.mark.parametrize(
    ("watched", "told"), [("/a", True), ("/", True), ("/a/b", True), ("/a/b/c", False), ("/a/", False)]
)
def test_a_watch_covers_its_path_and_what_is_below(watched, told):
    watches = Watches()
    watches.answer(Tree(), [Watch(watched)])
    watches.notice(["/ab", "/a/b"])
    assert watches.events() == ((watched,) if told else ())
    assert watches.events() == ()


def test_the_largest_list_of_changes_does_not_hold_the_loop():
    changes = [Create("/a"), *(Create(f"/a/{number}", bytes(64)) for number in range(MOST_CHANGES - 1))]
    value, tree, watches = encode(TreeChanges(0, 1, changes)), Tree(), Watches()
    watches.answer(tree, [Watch("/"), Watch("/a/1"), Watch("/b")])
    with without_collections():
        begin = time.thread_time()
        applied = tree.apply(1, decode(value))
        watches.notice(applied.changed)
        taken = time.thread_time() - begin
    assert (applied.verdict, watches.events()) == ("ok", ("/", "/a/1"))
    assert taken <= 0.05
