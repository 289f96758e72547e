"""What every `ports.MetadataStore` promises, whichever world provides it."""

import pytest

from tidelog.controller.tree import SKELETON
from tidelog.ports import ANY_VERSION, Check, Children, Create, Delete, Node, Read, StoreResult, Watch, Write


def read(store, path):
    (node,) = store.apply([Read(path)]).values
    return node


def children(store, path):
    (names,) = store.apply([Children(path)]).values
    return None if names is None else list(names)


def done(result: StoreResult):
    assert result.outcome == "ok", result
    return result.values


def conflict(result: StoreResult, index: int):
    assert (result.outcome, result.failed, list(result.values)) == ("conflict", index, [])


def test_the_skeleton_is_there_from_the_first_start(store):
    for path in SKELETON:
        node = read(store, path)
        assert (node.data, node.version, node.session) == (b"", 0, 0)
    assert children(store, "/config/topics") == []


def test_a_created_node_reads_back_as_it_was_returned(store):
    (node,) = done(store.apply([Create("/cluster/id", b"abc")]))
    assert node == Node(b"abc", 0, node.created, 0)
    assert read(store, "/cluster/id") == node
    assert children(store, "/cluster") == ["id"]


def test_create_refuses_an_existing_node_and_a_missing_parent(store):
    done(store.apply([Create("/controller", b"1")]))
    conflict(store.apply([Create("/controller", b"2")]), 0)
    conflict(store.apply([Create("/nowhere/at/all")]), 0)
    assert read(store, "/controller").data == b"1"
    assert read(store, "/nowhere") is None


def test_versions_count_writes_from_0(store):
    done(store.apply([Create("/controller", b"")]))
    (first,) = done(store.apply([Write("/controller", b"a", 0)]))
    (second,) = done(store.apply([Write("/controller", b"b", ANY_VERSION)]))
    assert (first.version, second.version, second.data) == (1, 2, b"b")
    assert read(store, "/controller") == second


def test_write_refuses_another_version_and_a_missing_node(store):
    done(store.apply([Create("/controller", b"")]))
    conflict(store.apply([Write("/controller", b"a", 1)]), 0)
    conflict(store.apply([Write("/missing", b"a")]), 0)
    assert read(store, "/controller").version == 0


def test_an_ephemeral_node_has_no_children(store):
    done(store.apply([Create("/controller", b"", ephemeral=True)]))
    conflict(store.apply([Create("/controller/below", b"")]), 0)
    conflict(store.apply([Create("/brokers/ids/1", b"", ephemeral=True), Create("/brokers/ids/1/below", b"")]), 1)
    assert read(store, "/brokers/ids/1") is None


def test_a_write_keeps_the_creation_number_and_the_session(store):
    (created,) = done(store.apply([Create("/controller", b"", ephemeral=True)]))
    (written,) = done(store.apply([Write("/controller", b"x")]))
    assert (written.created, written.session) == (created.created, store.session)


def test_creation_numbers_ascend_over_the_whole_store_and_a_new_node_starts_at_version_0(world, store):
    numbers = []
    for who in (store, world.session(), store):
        (node,) = done(who.apply([Create("/brokers/ids/1", b"")]))
        done(who.apply([Write("/brokers/ids/1", b"x")]))
        done(who.apply([Delete("/brokers/ids/1")]))
        assert node.version == 0
        numbers.append(node.created)
    assert numbers == sorted(set(numbers))


def test_delete_refuses_a_missing_node_another_version_and_children(store):
    done(store.apply([Create("/brokers/topics/t", b""), Create("/brokers/topics/t/partitions", b"")]))
    conflict(store.apply([Delete("/brokers/topics/u")]), 0)
    conflict(store.apply([Delete("/brokers/topics/t")]), 0)
    conflict(store.apply([Delete("/brokers/topics/t/partitions", 1)]), 0)
    assert done(store.apply([Delete("/brokers/topics/t/partitions", 0), Delete("/brokers/topics/t")])) == (None, None)
    assert children(store, "/brokers/topics") == []


def test_check_needs_the_node_with_this_version(store):
    done(store.apply([Create("/controller", b"")]))
    assert list(done(store.apply([Check("/controller", 0)]))) == [None]
    conflict(store.apply([Check("/controller", 1)]), 0)
    conflict(store.apply([Check("/missing", 0)]), 0)


@pytest.mark.parametrize(
    "failing",
    [
        Create("/cluster/a"),
        Write("/cluster/a", b"", 7),
        Delete("/cluster/zzz"),
        Check("/cluster/a", 7),
        Delete("/cluster"),
    ],
)
def test_all_changes_happen_or_none_and_the_first_refusal_is_named(store, failing):
    done(store.apply([Create("/cluster/a", b"old")]))
    before = read(store, "/cluster/a")
    conflict(store.apply([Create("/cluster/b"), Write("/cluster/a", b"new"), failing, Check("/none", 0)]), 2)
    assert read(store, "/cluster/a") == before
    assert read(store, "/cluster/b") is None


def test_later_operations_of_a_list_see_the_earlier_ones(store):
    values = done(
        store.apply(
            [
                Create("/brokers/topics/t", b""),
                Create("/brokers/topics/t/partitions", b"0"),
                Write("/brokers/topics/t/partitions", b"1", 0),
                Check("/brokers/topics/t/partitions", 1),
                Delete("/brokers/topics/t/partitions", 1),
                Create("/brokers/topics/t/partitions", b"2"),
            ]
        )
    )
    assert values[2].version == 1
    assert read(store, "/brokers/topics/t/partitions") == values[5] != values[1]
    assert values[5].version == 0


def test_queries_answer_in_order_and_none_for_what_is_missing(store):
    done(store.apply([Create("/config/topics/b", b"2"), Create("/config/topics/a", b"1")]))
    names, missing, nothing, node, watch = done(
        store.apply(
            [
                Children("/config/topics"),
                Children("/zzz"),
                Read("/zzz"),
                Read("/config/topics/a"),
                Watch("/config/changes"),
            ]
        )
    )
    assert list(names) == ["a", "b"]
    assert (missing, nothing, node.data, watch) == (None, None, b"1", None)


def test_children_are_the_next_level_only(store):
    done(store.apply([Create("/brokers/topics/t", b""), Create("/brokers/topics/t/partitions", b"")]))
    done(store.apply([Create("/brokers/topics/t-2", b"")]))
    assert children(store, "/brokers/topics") == ["t", "t-2"]
    assert children(store, "/brokers/topics/t") == ["partitions"]
    assert {"admin", "brokers", "cluster", "config"} <= set(children(store, "/"))


def test_an_empty_list_changes_nothing(store):
    assert list(done(store.apply([]))) == []


def test_a_session_ends_with_its_ephemeral_nodes_and_leaves_the_others(world, store):
    other = world.session()
    assert other.session != store.session
    done(other.apply([Create("/controller", b"2", ephemeral=True), Create("/brokers/ids/2", b"", ephemeral=True)]))
    done(other.apply([Create("/cluster/id", b"stays")]))
    done(store.apply([Create("/brokers/ids/1", b"", ephemeral=True)]))
    assert read(store, "/controller").session == other.session
    other.close()
    assert read(store, "/controller") is None
    assert children(store, "/brokers/ids") == ["1"]
    assert read(store, "/cluster/id").data == b"stays"


def test_a_killed_owner_takes_its_ephemeral_nodes_along_and_others_are_notified(world, store):
    other = world.session()
    done(other.apply([Create("/controller", b"", ephemeral=True), Create("/brokers/ids/2", b"", ephemeral=True)]))
    done(store.apply([Watch("/controller"), Watch("/brokers/ids")]))
    world.kill(other)
    assert children(store, "/brokers/ids") == []
    assert sorted(store.events()) == ["/brokers/ids", "/controller"]
    done(store.apply([Create("/controller", b"mine", ephemeral=True)]))


def test_an_ended_session_changes_nothing_and_answers_unknown(world, store):
    other = world.session()
    other.close()
    assert other.apply([Create("/controller")]).outcome == "unknown"
    assert other.apply([Read("/controller")]).outcome == "unknown"
    assert list(other.events()) == []
    assert read(store, "/controller") is None


def test_an_ephemeral_node_may_be_deleted_and_taken_over_before_its_session_ends(world, store):
    other = world.session()
    done(other.apply([Create("/controller", b"old", ephemeral=True)]))
    done(store.apply([Delete("/controller", 0), Create("/controller", b"new", ephemeral=True)]))
    other.close()
    assert read(store, "/controller").data == b"new"


def test_a_watched_path_is_reported_once_whatever_changed_at_it_or_below(world, store):
    other = world.session()
    done(store.apply([Watch("/brokers/topics"), Watch("/controller")]))
    done(other.apply([Create("/brokers/topics/t", b""), Create("/brokers/topics/t/partitions", b"")]))
    done(other.apply([Write("/brokers/topics/t", b"1")]))
    done(other.apply([Write("/brokers/topics/t", b"2")]))
    done(other.apply([Create("/controller", b""), Create("/cluster/id", b"")]))
    assert sorted(store.events()) == ["/brokers/topics", "/controller"]
    assert list(store.events()) == []
    done(other.apply([Delete("/controller")]))
    assert list(store.events()) == ["/controller"]


def test_a_watch_does_not_report_names_that_only_begin_alike(world, store):
    done(store.apply([Watch("/controller")]))
    done(world.session().apply([Write("/controller_epoch", b"1"), Create("/controllers", b"")]))
    assert list(store.events()) == []


def test_own_changes_are_notified_too(store):
    done(store.apply([Watch("/config/changes")]))
    done(store.apply([Create("/config/changes/1", b"")]))
    assert list(store.events()) == ["/config/changes"]


def test_nothing_is_reported_of_the_time_before_the_watch_nor_of_what_did_not_happen(world, store):
    other = world.session()
    done(other.apply([Create("/config/changes/1", b"")]))
    done(store.apply([Watch("/config/changes")]))
    conflict(other.apply([Create("/config/changes/2", b""), Check("/config/changes/1", 9)]), 1)
    done(other.apply([Check("/config/changes/1", 0)]))
    assert list(store.events()) == []
    assert list(other.events()) == []


def test_a_watch_of_the_root_reports_everything(world, store):
    done(store.apply([Watch("/")]))
    done(world.session().apply([Create("/a", b""), Create("/a/b", b"")]))
    assert list(store.events()) == ["/"]


def test_the_tree_outlives_every_session(world, store):
    (before,) = done(store.apply([Create("/cluster/id", b"abc")]))
    done(store.apply([Create("/controller", b"", ephemeral=True)]))
    world.restart()
    after = world.session()
    assert after.session > store.session
    assert read(after, "/cluster/id") == before
    assert read(after, "/controller") is None
    (node,) = done(after.apply([Create("/controller", b"")]))
    assert node.created > before.created


def test_compare_and_set_loses_no_update(world, store):
    stores = [store, world.session(), world.session()]
    done(store.apply([Create("/counter", b"0")]))
    nodes = [read(store, "/counter")] * len(stores)  # another session may not have read it yet
    won = 0
    for turn in range(12):
        which = turn % 3
        result = stores[which].apply([Write("/counter", b"%d" % (int(nodes[which].data) + 1), nodes[which].version)])
        won += result.outcome == "ok"
        nodes[(turn + turn // 5) % 3] = read(store, "/counter")
    assert int(read(store, "/counter").data) == won == read(store, "/counter").version
