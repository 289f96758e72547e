"""Partitions that move: begun, replaced, cancelled, ended, with controllers and brokers that die meanwhile (KIP-455)."""

from types import SimpleNamespace

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.commands.reassignment import _together
from tidelog.controller.journal import CHUNK
from tidelog.controller.leaders import Life
from tidelog.controller.moves import narrowed
from tidelog.controller.state import Topic
from tidelog.controller.tree import RequestedReplicas
from tidelog.errors import ErrorCode
from tidelog.ports import Create, Read, Write
from tidelog.wire.messages.cluster.controller_pushes import StopReplicaRequest
from tidelog.wire.messages.topics.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.topics.topic_changes import DeleteTopicsRequest, DeleteTopicState


@pytest.fixture
def cluster():
    cluster = FakeCluster(5).start()
    assert cluster.create("t", assignments={0: [0, 1], 1: [1, 2]}).error_code == 0
    return cluster


def wish(moves, **fields):
    """`moves`: (topic, partition) → replicas, or None to cancel."""
    topics = {}
    for (topic, index), replicas in moves.items():
        entry = ReassignablePartition(partition_index=index, replicas=replicas)
        topics.setdefault(topic, ReassignableTopic(name=topic, partitions=[])).partitions.append(entry)
    return AlterPartitionReassignmentsRequest(topics=list(topics.values()), **fields)


def reassign(cluster, moves, **fields):
    response = cluster.ask(wish(moves, **fields))
    assert response.error_code == 0
    return [ErrorCode(answer.error_code) for topic in response.responses for answer in topic.partitions]


def ongoing(cluster, topics=None):
    response = cluster.ask(ListPartitionReassignmentsRequest(topics=topics))
    return {
        (topic.name, p.partition_index): (p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in response.topics
        for p in topic.partitions
    }


def stored(cluster, topic="t"):
    return tree.parse_assignment(cluster.tree.nodes[tree.topic_path(topic)].data)


def holders(cluster, topic="t", index=0):
    return {broker.id for broker in cluster.brokers.values() if (topic, index) in broker.log_ends}


def test_a_move_adds_waits_for_the_isr_and_removes(cluster):
    before = cluster.partition("t").state
    assert reassign(cluster, {("t", 0): [3, 4]}) == [ErrorCode.NONE]
    assert ongoing(cluster) == {("t", 0): ([3, 4, 0, 1], [3, 4], [0, 1])}
    assert stored(cluster).adding == {0: (3, 4)}
    assert stored(cluster).removing == {0: (0, 1)}
    assert holders(cluster) == {0, 1, 3, 4}
    cluster.expand("t", 0, 3)
    assert ongoing(cluster) != {}
    assert cluster.partition("t").state.leader == 0
    cluster.expand("t", 0, 4)
    assert ongoing(cluster) == {}
    after = cluster.partition("t")
    assert (after.replicas, after.state.leader, after.state.isr) == ((3, 4), 3, (3, 4))
    assert after.state.leader_epoch == before.leader_epoch + 1
    assert stored(cluster) == stored(cluster)._replace(replicas={0: (3, 4), 1: (1, 2)}, adding={}, removing={})
    assert holders(cluster) == {3, 4}
    assert cluster.brokers[2].image.partition("t", 0).replicas == [3, 4]


def test_brokers_learn_of_the_replicas_as_soon_as_the_topics_node_has_them(cluster):
    """Before its state changes, too: a controller may lose its office between the two."""
    partition, lives = cluster.partition("t"), cluster.state.lives
    assert partition.metadata(lives).replicas == [0, 1]
    partition.reassign((0, 1, 3), (3,), ())
    assert partition.metadata(lives).replicas == [0, 1, 3]


def test_steps_share_a_multi_as_long_as_they_fit_whole():
    halves = [SimpleNamespace(moves=[None] * (CHUNK // 2 - 1)) for _ in range(3)]
    assert _together(halves) == [halves[:2], halves[2:]]


def test_a_topic_without_moves_is_not_listed(cluster):
    asked = ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])
    assert cluster.ask(ListPartitionReassignmentsRequest(topics=[asked])).topics == []


def test_the_leader_stays_where_the_target_holds_it(cluster):
    reassign(cluster, {("t", 0): [3, 0]})
    cluster.catch_up()
    assert cluster.partition("t").state.leader == 0
    assert cluster.partition("t").replicas == (3, 0)
    assert holders(cluster) == {0, 3}


def test_replication_factors_go_up_and_down(cluster):
    assert reassign(cluster, {("t", 0): [0, 1, 2, 3]}) == [ErrorCode.NONE]
    cluster.catch_up()
    assert cluster.partition("t").replicas == (0, 1, 2, 3)
    assert cluster.partition("t").state.leader_epoch == 0
    assert reassign(cluster, {("t", 0): [2]}) == [ErrorCode.NONE]
    assert cluster.partition("t").state.isr == (2,)
    assert cluster.partition("t").state.leader == 2
    assert holders(cluster) == {2}


def test_another_order_needs_no_copying(cluster):
    assert reassign(cluster, {("t", 0): [1, 0]}) == [ErrorCode.NONE]
    assert ongoing(cluster) == {}
    assert cluster.partition("t").replicas == (1, 0)
    assert cluster.partition("t").state.leader == 0
    assert cluster.brokers[1].roles["t", 0][2] == cluster.partition("t").version
    assert reassign(cluster, {("t", 0): [1, 0]}) == [ErrorCode.NONE]
    assert cluster.partition("t").version == 1


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_bad_requests_are_refused_and_change_nothing(cluster, replicas, code):
    before = dict(cluster.tree.nodes)
    assert reassign(cluster, {("t", 0): replicas}) == [code]
    assert cluster.tree.nodes == before


def test_unknown_topics_and_partitions_are_refused_and_others_go_on(cluster):
    codes = reassign(cluster, {("t", 7): [1], ("u", 0): [1], ("t", 1): [1, 3]})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(codes) == sorted([unknown, ErrorCode.NONE, unknown])
    assert ongoing(cluster) == {("t", 1): ([1, 3, 2], [3], [2])}
    some = [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 1, 5]) for name in ("t", "u")]
    assert ongoing(cluster, some) == {("t", 1): ([1, 3, 2], [3], [2])}


def test_the_replication_factor_stays_where_the_request_wants_it(cluster):
    wished = {("t", 0): [1, 2, 3]}
    keep = {"allow_replication_factor_change": False}
    assert reassign(cluster, wished, **keep) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    assert reassign(cluster, {("t", 0): [1, 2]}, **keep) == [ErrorCode.NONE]


def test_a_dead_broker_is_no_target_and_is_replaced(cluster):
    cluster.brokers[1].kill()
    cluster.settle()
    assert reassign(cluster, {("t", 0): [0, 1, 2]}) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert reassign(cluster, {("t", 0): [0, 2]}) == [ErrorCode.NONE]
    cluster.expand("t", 0, 2)
    assert cluster.partition("t").replicas == (0, 2)
    cluster.brokers[1].start()
    cluster.settle()
    assert holders(cluster) == {0, 2}


def test_cancelling_takes_away_what_was_added(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    cluster.expand("t", 0, 3)
    assert reassign(cluster, {("t", 0): None}) == [ErrorCode.NONE]
    assert ongoing(cluster) == {}
    partition = cluster.partition("t")
    assert (partition.replicas, partition.state.isr, partition.state.leader) == ((0, 1), (0, 1), 0)
    assert holders(cluster) == {0, 1}
    assert reassign(cluster, {("t", 0): None}) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def test_cancelling_moves_the_leader_back(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    cluster.expand("t", 0, 3)
    cluster.brokers[0].kill()
    cluster.settle()
    assert cluster.partition("t").state.leader == 3
    assert reassign(cluster, {("t", 0): None}) == [ErrorCode.NONE]
    assert cluster.partition("t").state.leader == 1
    assert holders(cluster) - {0} == {1}


@pytest.mark.parametrize("unclean", [False, True])
def test_cancelling_where_only_what_was_added_is_in_sync_is_an_unclean_election(unclean):
    config = {"unclean.leader.election.enable": str(unclean).lower()}
    cluster = FakeCluster(3).start()
    cluster.create("t", assignments={0: [0]}, configs=config)
    reassign(cluster, {("t", 0): [1, 2]})
    cluster.expand("t", 0, 1)
    cluster.ghost.unclean_allowed = True
    partition = cluster.partition("t")
    cluster.alter(cluster.brokers[0], partition, [(0, cluster.brokers[0].epoch), (1, cluster.brokers[1].epoch)])
    cluster.brokers[0].kill()
    cluster.settle()
    cluster.brokers[0].start()
    cluster.settle()
    assert cluster.partition("t").state.isr == (1,)
    codes = reassign(cluster, {("t", 0): None})
    if unclean:
        assert codes == [ErrorCode.NONE]
        assert cluster.partition("t").state.isr == (0,)
        assert cluster.partition("t").replicas == (0,)
    else:
        assert codes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
        assert ongoing(cluster) != {}


def test_a_move_replaces_a_running_one(cluster):
    reassign(cluster, {("t", 0): [3, 1]})
    cluster.expand("t", 0, 3)
    assert ongoing(cluster) == {}
    reassign(cluster, {("t", 0): [2, 4]})
    assert reassign(cluster, {("t", 0): [4, 0]}) == [ErrorCode.NONE]
    assert ongoing(cluster) == {("t", 0): ([4, 0, 3, 1], [4, 0], [3, 1])}
    assert holders(cluster) == {0, 1, 3, 4}
    cluster.catch_up()
    assert cluster.partition("t").replicas == (4, 0)
    assert holders(cluster) == {0, 4}


def test_replacing_a_move_by_its_origin_ends_it(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    assert reassign(cluster, {("t", 0): [1, 0]}) == [ErrorCode.NONE]
    assert ongoing(cluster) == {}
    assert cluster.partition("t").replicas == (1, 0)
    assert holders(cluster) == {0, 1}


def test_a_replica_that_comes_back_is_not_deleted_by_what_is_late(cluster):
    """The StopReplica fails on its way; by the time it is sent again the replica belongs there."""
    reassign(cluster, {("t", 0): [3, 4]})
    cluster.brokers[1].alive = False
    cluster.expand("t", 0, 3)
    cluster.submit(wish({("t", 0): None}))
    cluster.settle(timers=False)
    cluster.submit(wish({("t", 0): [1, 3]}))
    cluster.settle(timers=False)
    cluster.brokers[1].alive = True
    cluster.settle()
    assert holders(cluster) == {0, 1, 3}
    stops = [r for r in cluster.brokers[1].received if isinstance(r, StopReplicaRequest)]
    assert stops == []


def test_a_late_deletion_names_an_epoch_below_the_one_after_it(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    reassign(cluster, {("t", 0): None})
    (stop,) = [r for r in cluster.brokers[3].received if isinstance(r, StopReplicaRequest)]
    told = stop.topic_states[0].partition_states[0].leader_epoch
    reassign(cluster, {("t", 0): [3, 4]})
    assert told < cluster.brokers[3].roles["t", 0][1]
    cluster.brokers[3].delete_replicas(stop)
    assert 3 in holders(cluster)


def test_a_broker_that_was_dead_at_the_end_drops_what_it_held(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    cluster.expand("t", 0, 3)
    cluster.brokers[1].kill()
    cluster.expand("t", 0, 4)
    assert cluster.partition("t").replicas == (3, 4)
    assert holders(cluster) == {1, 3, 4}
    cluster.brokers[1].start()
    cluster.settle()
    assert holders(cluster) == {3, 4}


def test_auto_rebalance_leaves_moving_partitions_alone():
    cluster = FakeCluster(
        3, leader_imbalance_check_interval_seconds=1, leader_imbalance_per_broker_percentage=0
    ).start()
    cluster.create("t", assignments={0: [0, 1]})
    reassign(cluster, {("t", 0): [1, 0, 2]})
    cluster.brokers[2].kill()
    cluster.settle()
    cluster.advance(5_000)
    cluster.settle()
    assert cluster.partition("t").state.leader == 0
    reassign(cluster, {("t", 0): [1, 0]})
    cluster.advance(5_000)
    cluster.settle()
    assert cluster.partition("t").state.leader == 1


@pytest.mark.parametrize(("percentage", "back"), [(49, True), (50, False)])
def test_auto_rebalance_waits_until_a_broker_misses_enough(percentage, back):
    options = {"leader_imbalance_check_interval_seconds": 1, "leader_imbalance_per_broker_percentage": percentage}
    cluster = FakeCluster(2, **options).start()
    cluster.create("t", assignments={0: [0, 1], 1: [1, 0]})
    reassign(cluster, {("t", 1): [0, 1]})
    cluster.advance(5_000)
    cluster.settle()
    assert cluster.partition("t", 1).state.leader == (0 if back else 1)


# The node in the tree.


def put_wishes(cluster, *wishes, data=None):
    data = data or tree.format_reassignment([RequestedReplicas(*wish) for wish in wishes])
    broker = next(b for b in cluster.brokers.values() if b.alive)
    held = broker.session.apply([Read(tree.REASSIGN_PARTITIONS)]).values[0]
    change = Write(tree.REASSIGN_PARTITIONS, data) if held else Create(tree.REASSIGN_PARTITIONS, data)
    assert broker.session.apply([change]).outcome == "ok"
    cluster.settle()


def test_writing_the_node_starts_moves_and_their_end_removes_it(cluster):
    put_wishes(cluster, ("t", 0, (3, 4)), ("t", 1, (1, 2)), ("t", 9, (1,)), ("u", 0, (1,)), ("t", 1, (1, 4)))
    assert ongoing(cluster) == {("t", 0): ([3, 4, 0, 1], [3, 4], [0, 1]), ("t", 1): ([1, 4, 2], [4], [2])}
    cluster.expand("t", 1, 4)
    left = tree.parse_reassignment(cluster.tree.nodes[tree.REASSIGN_PARTITIONS].data)
    assert left == [("t", 0, (3, 4))]
    cluster.catch_up()
    assert ongoing(cluster) == {}
    assert tree.REASSIGN_PARTITIONS not in cluster.tree.nodes
    put_wishes(cluster, ("t", 0, (0, 1)))
    cluster.catch_up()
    assert cluster.partition("t").replicas == (0, 1)
    assert tree.REASSIGN_PARTITIONS not in cluster.tree.nodes


def test_a_request_that_cannot_be_granted_is_reported(cluster):
    put_wishes(cluster, ("u", 0, (1,)))
    (told,) = cluster.kinds("reassignment.refused")
    assert (told["topic"], told["partition"]) == ("u", 0)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"partitions":[{"topic":"t"}]}', b'{"version":1,"partitions":[]}']
)
def test_an_unreadable_node_goes(cluster, data):
    put_wishes(cluster, data=data or b" ")
    assert tree.REASSIGN_PARTITIONS not in cluster.tree.nodes
    assert ongoing(cluster) == {}


def test_a_request_that_was_cancelled_does_not_come_back(cluster):
    put_wishes(cluster, ("t", 0, (3, 4)), ("t", 1, (3, 4)))
    reassign(cluster, {("t", 0): None})
    assert tree.parse_reassignment(cluster.tree.nodes[tree.REASSIGN_PARTITIONS].data) == [("t", 1, (3, 4))]
    cluster.leader.kill()
    cluster.settle()
    assert list(ongoing(cluster)) == [("t", 1)]


def test_a_new_controller_grants_what_it_finds(cluster):
    broker = cluster.brokers[4]
    data = tree.format_reassignment([RequestedReplicas("t", 0, (3, 4))])
    broker.session.apply([Create(tree.REASSIGN_PARTITIONS, data)])
    cluster.leader.kill()
    cluster.settle()
    assert ongoing(cluster) == {("t", 0): ([3, 4, 0, 1], [3, 4], [0, 1])}


# Deletion meanwhile (seed 004).


def delete(cluster, name, timeout_ms=1000):
    topics = [DeleteTopicState(name=name)]
    return cluster.submit(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms))


def test_a_topic_deleted_during_a_move_waits_for_its_end(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    token = delete(cluster, "t")
    cluster.settle()
    assert cluster.replies.pop(token).responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.partition("t").state.leader == 0
    assert "t" in cluster.brokers[2].image.topics
    assert cluster.create("t", 1, 1).error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert reassign(cluster, {("t", 1): [3, 4]}) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    cluster.leader.kill()
    cluster.settle()
    cluster.expand("t", 0, 3)
    cluster.brokers[0].start()
    cluster.settle()
    cluster.expand("t", 0, 4)
    cluster.settle()
    assert [path for path in cluster.tree.nodes if "t" in path.split("/")] == []
    assert all(holders(cluster, "t", index) == set() for index in (0, 1))


def test_cancelling_the_move_lets_the_deletion_begin(cluster):
    reassign(cluster, {("t", 0): [3, 4]})
    delete(cluster, "t")
    cluster.settle()
    assert reassign(cluster, {("t", 0): None}) == [ErrorCode.NONE]
    cluster.settle()
    assert "t" not in cluster.state.topics
    assert all(holders(cluster, "t", index) == set() for index in (0, 1))


# Throttles.


def test_throttles_go_with_the_moves_they_came_with(cluster):
    lists = {
        "leader.replication.throttled.replicas": "0:0,0:1,1:1,1:2",
        "follower.replication.throttled.replicas": "0:3,0:4,1:4",
    }
    cluster.create("u", assignments={0: [0, 1]}, configs=lists | {"retention.ms": "5"})
    rates = {"leader.replication.throttled.rate": "1", "follower.replication.throttled.rate": "2"}
    put_broker_options(cluster, "1", rates | {"log.cleaner.threads": "2"})
    put_broker_options(cluster, "2", rates)
    reassign(cluster, {("u", 0): [3, 4]})
    cluster.catch_up()
    left = {name: value for name, value in cluster.state.configs["topics/u"].items() if name in lists}
    assert left == {
        "leader.replication.throttled.replicas": "1:1,1:2",
        "follower.replication.throttled.replicas": "1:4",
    }
    assert cluster.state.configs["brokers/1"].keys() > rates.keys()
    cluster.create("v", assignments={0: [0, 1]}, configs={"leader.replication.throttled.replicas": "0:1"})
    for options in (cluster.state.configs["topics/u"],):
        for name in lists:
            options.pop(name)
    reassign(cluster, {("v", 0): [3, 4]})
    cluster.catch_up()
    assert cluster.state.configs["topics/v"] == {}
    assert cluster.state.configs["topics/u"] == {"retention.ms": "5"}
    assert cluster.state.configs["brokers/1"] == {"log.cleaner.threads": "2"}
    assert cluster.state.configs["brokers/2"] == {}


def test_throttles_of_a_move_that_is_none_go_at_once_and_those_of_one_under_way_stay(cluster):
    option = "leader.replication.throttled.replicas"
    cluster.create("u", assignments={0: [0, 1], 1: [0, 1], 2: [0, 1]}, configs={option: "0:0,0:1,1:0,1:1,2:0"})
    reassign(cluster, {("u", 1): [3, 4]})
    assert reassign(cluster, {("u", 0): [0, 1], ("u", 1): [3, 4], ("u", 2): [9]})[:2] == [ErrorCode.NONE] * 2
    assert cluster.state.configs["topics/u"] == {option: "1:0,1:1,2:0"}


def test_a_list_of_throttles_that_names_nothing_of_the_move_stays_as_it_was_written(cluster):
    option = "leader.replication.throttled.replicas"
    cluster.create("u", assignments={0: [0, 1], 1: [0, 1]}, configs={option: "1:0, 1:1"})
    reassign(cluster, {("u", 0): [3, 4]})
    cluster.catch_up()
    assert cluster.state.configs["topics/u"] == {option: "1:0, 1:1"}


def put_broker_options(cluster, broker, options):
    session = cluster.brokers[0].session
    result = session.apply([Create(tree.broker_config_path(broker), tree.format_config(options))])
    assert result.outcome == "ok"
    cluster.leader.kill()
    cluster.settle()
    for other in cluster.brokers.values():
        if not other.alive:
            other.start()
    cluster.settle()


# Controllers and brokers that die.


@pytest.mark.parametrize("steps", range(0, 60, 2))
def test_a_controller_that_dies_at_any_step_of_a_move_is_followed_up(steps):
    """Its life ends after so many steps of store or network; whatever it had done, the wish is asked again and ends."""
    cluster = FakeCluster(5).start()
    cluster.create("t", assignments={0: [1, 2], 1: [2, 1]})
    moves = {("t", 0): [3, 4], ("t", 1): [3]}
    assert cluster.leader.id == 0
    cluster.submit(wish(moves))
    asked = 0
    for _ in range(steps):
        cluster.step_any()
        fresh = [p for p in cluster.state.partitions() if p.is_moving and set(p.replicas) != set(p.state.isr)]
        if fresh and not cluster.stores and asked < 6:
            asked += 1
            partition = fresh[0]
            missing = next(b for b in partition.replicas if b not in partition.state.isr)
            members = [(b, cluster.brokers[b].epoch) for b in (*partition.state.isr, missing)]
            leader = cluster.brokers[partition.state.leader]
            topic = cluster.wish(partition, members)
            cluster.submit(alter_partition(leader, topic))
    cluster.leader.kill()
    cluster.settle()
    assert cluster.leader.id != 0
    assert reassign(cluster, moves) == [ErrorCode.NONE] * 2
    cluster.catch_up()
    assert ongoing(cluster) == {}
    assert stored(cluster).replicas == {0: (3, 4), 1: (3,)}
    cluster.brokers[0].start()
    cluster.settle()
    assert holders(cluster) == {3, 4}
    assert holders(cluster, "t", 1) == {3}


def alter_partition(leader, topic):
    from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest

    return AlterPartitionRequest(broker_id=leader.id, broker_epoch=leader.epoch, topics=[topic])


@pytest.mark.parametrize("fate", ["lost", "answer lost"])
def test_a_write_of_unknown_outcome_is_found_out(cluster, fate):
    cluster.outcomes.append(fate)
    assert reassign(cluster, {("t", 0): [3, 4]}) == [ErrorCode.NONE]
    cluster.catch_up()
    assert cluster.partition("t").replicas == (3, 4)
    assert holders(cluster) == {3, 4}


def test_many_partitions_move_in_few_writes():
    cluster = FakeCluster(4).start()
    cluster.create("wide", assignments={index: [0, 1] for index in range(1200)})
    cluster.create("narrow", assignments={0: [0, 1]})
    before = cluster.store_count
    moves = {("wide", index): [2, 3] for index in range(1200)} | {("narrow", 0): [2]}
    assert set(reassign(cluster, moves)) == {ErrorCode.NONE}
    assert cluster.store_count - before <= 6
    assert len(ongoing(cluster)) == 1201
    cluster.leader.kill()
    cluster.settle(limit=20_000)
    assert len(ongoing(cluster)) == 1201


@pytest.mark.parametrize(
    ("first", "offline", "leader"),
    [
        (Life(11), (), 1),
        (Life(11), (1,), 2),
        (Life(11, leaving=True), (), 2),
        (Life(99), (), 2),
        (None, (), 2),
    ],
)
def test_a_move_that_takes_the_leader_gives_the_leadership_to_the_first_that_may_have_it(first, offline, leader):
    topic = Topic("t", tree.Assignment(b"x" * 16, {0: (0, 1, 2)}, {}, {}), 0)
    partition = topic.add(0)
    partition.commit(tree.LeadershipState(0, 3, (0, 1, 2), (10, 11, 12)), 5)
    partition.offline = frozenset(offline)
    lives = {0: Life(10), 2: Life(12)} | ({1: first} if first else {})
    state = narrowed(partition, (1, 2), lives)
    assert (state.leader, state.leader_epoch, state.isr) == (leader, 4, (1, 2))
