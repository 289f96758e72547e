import json

from hypothesis import given
from hypothesis import strategies as st

from tidelog.controller import tree
from tidelog.controller.tree import Assignment, LeadershipState, Registration
from tidelog.model import Endpoint

ids = st.integers(0, 2**31 - 1)
replicas = st.lists(ids, unique=True, max_size=5).map(tuple)


@given(st.binary(min_size=16, max_size=16), st.dictionaries(st.integers(0, 3000), replicas, max_size=20))
def test_an_assignment_reads_back_in_order_of_its_partitions(topic_id, partitions):
    read = tree.parse_assignment(tree.format_assignment(Assignment(topic_id, partitions, {}, {})))
    assert read == Assignment(topic_id, partitions, {}, {})
    assert list(read.replicas) == sorted(partitions)


@given(ids, ids, st.lists(st.tuples(ids, st.integers(-1, 2**63 - 1)), max_size=5), ids)
def test_a_state_reads_back(leader, epoch, members, controller_epoch):
    state = LeadershipState(leader, epoch, tuple(m[0] for m in members), tuple(m[1] for m in members), controller_epoch)
    assert tree.parse_state(tree.format_state(state)) == state


members = st.lists(st.tuples(ids, st.integers(-1, 2**63 - 1)), max_size=5)


@given(members, members, st.integers(-1, 9))
def test_eligible_leader_replicas_read_back_and_take_no_room_where_there_are_none(elr, last_known, last_leader):
    lists = [tuple(each) for found in (elr, last_known) for each in (tuple(zip(*found, strict=True)) or ((), ()))]
    state = LeadershipState(-1, 3, (), (), 1, *lists, last_leader)
    assert tree.parse_state(tree.format_state(state)) == state
    assert (b"elr" in tree.format_state(state), b"last_known" in tree.format_state(state)) == (
        bool(elr),
        bool(last_known),
    )
    assert set(tree.without_epochs(state).recorded.values()) <= {-1}


def test_a_state_without_broker_epochs_is_one_whose_members_never_count():
    data = b'{"controller_epoch":3,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}'
    assert tree.parse_state(data) == LeadershipState(1, 7, (1, 2), (-1, -1), 3)


def test_a_registration_reads_as_kafka_wrote_it():
    endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092), Endpoint("REPLICATION", "SSL", "b.example", 9093))
    registration = Registration(endpoints, "rack-1", 41)
    data = tree.format_registration(registration, 1_700_000_000_000)
    assert tree.parse_registration(data) == registration
    value = json.loads(data)
    assert value["endpoints"] == ["PLAINTEXT://::1:9092", "REPLICATION://b.example:9093"]
    assert value["listener_security_protocol_map"] == {"PLAINTEXT": "PLAINTEXT", "REPLICATION": "SSL"}
    assert (value["host"], value["port"], value["version"]) == ("::1", 9092, 5)


def test_empty_nodes_of_the_skeleton_mean_that_nothing_was_yet():
    assert tree.parse_controller_epoch(b"") == 0
    assert tree.parse_producer_id_block(b"") == (0, -1)
    assert tree.parse_config(b"") == {}


def test_the_small_nodes_read_back():
    assert tree.parse_controller(tree.format_controller(3, 12)) == 3
    assert tree.parse_controller_epoch(tree.format_controller_epoch(9)) == 9
    assert tree.parse_cluster_id(tree.format_cluster_id("abc")) == "abc"
    assert tree.parse_config(tree.format_config({"a": "b"})) == {"a": "b"}
    assert tree.parse_config_change(tree.format_config_change("topics/t")) == "topics/t"
    assert tree.parse_log_dir_event(tree.format_log_dir_event(2)) == 2
    assert tree.parse_producer_id_block(tree.format_producer_id_block(1, 1000, 1999)) == (1000, 1999)


def test_the_skeleton_names_parents_before_their_children():
    seen = {""}
    for path in tree.SKELETON:
        assert path.rsplit("/", 1)[0] in seen
        seen.add(path)


def test_other_programs_read_the_versions_of_the_nodes():
    """Kafka's, where it has such a node; what is written once is read by every later version of ours."""
    written = {
        "directories": tree.format_directories({"b": 7, "a": -1}),
        "controller": tree.format_controller(3, 12),
        "log dir event": tree.format_log_dir_event(2),
    }
    assert written == {
        "directories": b'{"version":1,"directories":{"a":-1,"b":7}}',
        "controller": b'{"version":1,"brokerid":3,"timestamp":"12"}',
        "log dir event": b'{"version":1,"broker":2,"event":1}',
    }
