"""The controller as an actor, with brokers that answer: elections, failovers, unknown outcomes, clean restarts."""

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import tree
from tidelog.controller.controller import Controller
from tidelog.controller.image import FULL
from tidelog.controller.journal import CHUNK
from tidelog.controller.pushes import CREATIONS_PER_REQUEST
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.ports import Create, Delete, Node, Read, StoreResult, Write
from tidelog.wire.messages.cluster.alter_partition import AlterPartitionRequest
from tidelog.wire.messages.cluster.brokers import ControlledShutdownRequest
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    UpdateMetadataRequest,
)
from tidelog.wire.messages.records.offsets import OffsetForLeaderEpochRequest
from tidelog.wire.messages.topics.reassignments import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.topics.topic_changes import CreatableTopic, CreateTopicsRequest


@pytest.fixture
def cluster():
    return FakeCluster().start()


def assigned(cluster, *replicas, name="t"):
    result = cluster.create(name, assignments=dict(enumerate(replicas)))
    assert result.error_code == 0, result
    return cluster.partition(name)


def shut_down(cluster, broker):
    return cluster.ask(ControlledShutdownRequest(broker_id=broker, broker_epoch=cluster.brokers[broker].epoch))


def test_the_first_broker_leads_and_all_know_all(cluster):
    assert cluster.leader.id == 0
    assert cluster.kinds("controller.elected") == [{"broker": 0, "epoch": 1}]
    for broker in cluster.brokers.values():
        assert broker.controller.leader_id == 0
        assert broker.image.controller_id == 0
        assert sorted(broker.image.brokers) == [0, 1, 2]
        assert broker.image.brokers[2].endpoints["PLAINTEXT"].port == 9002


def test_a_topic_is_created_pushed_and_led(cluster):
    result = cluster.create("t", 6, 3)
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 6, 3)
    leaders = [cluster.partition("t", index).state.leader for index in range(6)]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]
    for broker in cluster.brokers.values():
        assert len(broker.roles) == 6
        assert broker.image.topic_by_id(result.topic_id).name == "t"
        assert [broker.image.partition("t", index).leader for index in range(6)] == leaders


def test_a_thousand_partitions_take_few_multis_and_pushes(cluster):
    before = cluster.store_count
    pushed = {id_: len(broker.received) for id_, broker in cluster.brokers.items()}
    assert cluster.create("t", 1000, 3).error_code == 0
    assert cluster.store_count - before <= -(-2003 // (CHUNK - 1)) + 1
    for id_, broker in cluster.brokers.items():
        kinds = [type(request) for request in broker.received[pushed[id_] :]]
        assert kinds.count(LeaderAndIsrRequest) == 1000 // CREATIONS_PER_REQUEST
        assert len(kinds) == 1000 // CREATIONS_PER_REQUEST + 1, "the metadata comes at once"


def test_a_dead_leader_is_followed_by_the_next_in_assignment_order(cluster):
    partition = assigned(cluster, (1, 2, 0))
    cluster.brokers[1].kill()
    cluster.settle()
    state = partition.state
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 0))
    assert cluster.brokers[2].roles["t", 0][:2] == (2, 1)
    assert cluster.brokers[0].image.partition("t", 0).offline == [1]
    assert cluster.brokers[0].image.brokers.keys() == {0, 2}


def test_a_dead_follower_leaves_the_isr_and_the_leader_epoch_stays(cluster):
    partition = assigned(cluster, (0, 1, 2))
    cluster.brokers[1].kill()
    cluster.settle()
    assert (partition.state.leader, partition.state.leader_epoch, partition.state.isr) == (0, 0, (0, 2))
    assert cluster.brokers[0].roles["t", 0] == (0, 0, 1, [0, 2])


def test_many_partitions_fail_over_in_a_few_multis(cluster):
    assigned(cluster, *[(1, 2, 0)] * 600)
    before = cluster.store_count
    cluster.brokers[1].kill()
    cluster.settle()
    assert cluster.store_count - before <= 2 + -(-600 // CHUNK)
    assert all(p.state.leader == 2 for p in cluster.state.topics["t"].partitions.values())


def test_the_last_isr_member_leads_again_when_it_is_back(cluster):
    partition = assigned(cluster, (1, 2))
    cluster.brokers[2].kill()
    cluster.settle()
    cluster.brokers[1].kill()
    cluster.settle()
    assert (partition.state.leader, partition.state.isr, partition.state.leader_epoch) == (-1, (1,), 1)
    cluster.brokers[2].start()
    cluster.settle()
    assert partition.state.leader == -1
    cluster.brokers[1].start()
    cluster.settle()
    assert (partition.state.leader, partition.state.isr, partition.state.leader_epoch) == (1, (1,), 2)
    assert partition.state.isr_epochs == (cluster.brokers[1].epoch,)


def test_an_unclean_restart_loses_the_isr_place_and_a_clean_one_keeps_it(cluster):
    unclean = assigned(cluster, (0, 1), name="unclean")
    clean = assigned(cluster, (0, 2), name="clean")
    # Both restart so quickly that the controller sees only another broker epoch.
    cluster.brokers[1].kill()
    cluster.brokers[1].start()
    cluster.brokers[2].stop_cleanly()
    cluster.brokers[2].start()
    cluster.settle()
    assert unclean.state.isr == (0,)
    assert clean.state.isr == (0, 2)
    assert clean.state.isr_epochs == (cluster.brokers[0].epoch, cluster.brokers[2].epoch)
    assert clean.state.leader_epoch == 0


def test_a_leader_that_restarts_cleanly_leads_in_a_new_epoch(cluster):
    partition = assigned(cluster, (1, 2))
    cluster.brokers[1].stop_cleanly()
    cluster.brokers[1].start()
    cluster.settle()
    assert (partition.state.leader, partition.state.leader_epoch, partition.state.isr) == (1, 1, (1, 2))


def test_when_all_die_at_once_the_most_complete_log_leads(cluster):
    """A power cut: every member is back, none counts; each is asked for (last epoch, LEO)."""
    assigned(cluster, (0, 1, 2))
    for id_, end in ((0, (3, 70)), (1, (4, 50)), (2, (4, 60))):
        cluster.brokers[id_].kill()
        cluster.brokers[id_].log_ends["t", 0] = end
    cluster.brokers[0].start()
    cluster.brokers[1].start()
    cluster.settle()
    assert cluster.partition("t").state.leader == -1
    cluster.brokers[2].start()
    cluster.settle()
    state = cluster.partition("t").state
    assert (state.leader, state.isr) == (2, (2,))
    assert cluster.kinds("partition.elected")[-1]["why"] == "most complete log"


def test_the_ends_of_logs_are_asked_for_in_the_epoch_without_a_leader(cluster):
    """Seed 3009822: the leader before it told its end, and then appended, for it had not heard that it leads no more."""
    partition = assigned(cluster, (1, 2))
    for broker in (cluster.brokers[1], cluster.brokers[2]):
        broker.kill()
        broker.start()
    cluster.settle()
    received = [request for id_ in (1, 2) for request in cluster.brokers[id_].received]
    asked = [request for request in received if isinstance(request, OffsetForLeaderEpochRequest)]
    state = partition.state
    assert state.leader in (1, 2)
    assert {known.topics[0].partitions[0].current_leader_epoch for known in asked} == {state.leader_epoch - 1}


def test_a_candidate_that_dies_while_it_is_asked_is_waited_for(cluster):
    assigned(cluster, (1, 2))
    for id_ in (1, 2):
        cluster.brokers[id_].kill()
    cluster.settle()
    assert cluster.partition("t").state.isr == (2,) or cluster.partition("t").state.isr == (1, 2)
    cluster.brokers[1].start()
    cluster.brokers[2].start()
    while not cluster.kinds("partition.elected"):
        if cluster.stores:
            cluster.step_store()
        elif not cluster.tell_events():
            break
    cluster.brokers[2].kill()
    cluster.settle()
    cluster.brokers[2].start()
    cluster.settle()
    assert cluster.partition("t").state.leader != -1


def test_unclean_election_only_where_allowed(cluster):
    cluster.ghost.unclean_allowed = True
    cluster.create("safe", assignments={0: (1, 2)})
    cluster.create("risky", assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": "true"})
    for id_ in (2, 1):
        cluster.brokers[id_].kill()
        cluster.settle()
    cluster.brokers[2].start()
    cluster.settle()
    assert cluster.partition("safe").state.leader == -1
    state = cluster.partition("risky").state
    assert (state.leader, state.isr) == (2, (2,))
    assert cluster.kinds("partition.unclean") == [{"topic": "risky", "partition": 0, "leader": 2, "previous_isr": [1]}]


def test_elect_leaders_on_request(cluster):
    cluster.ghost.unclean_allowed = True
    partition = assigned(cluster, (1, 2, 0))

    def wish(kind, *partitions, topic="t"):
        topics = [TopicPartitions(topic=topic, partitions=list(partitions))]
        response = cluster.ask(ElectLeadersRequest(election_type=kind, topic_partitions=topics))
        assert response.error_code == 0
        return [result.error_code for result in response.replica_election_results[0].partition_result]

    assert wish(0, 0, 7) == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert wish(0, 0, topic="other") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    cluster.brokers[1].kill()
    cluster.settle()
    assert wish(0, 0) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert wish(1, 0) == [ErrorCode.ELECTION_NOT_NEEDED]
    cluster.brokers[0].kill()
    cluster.brokers[2].kill()
    cluster.settle_without_leader()
    cluster.brokers[1].start()
    cluster.settle()
    partition = cluster.partition("t")
    assert partition.state.leader == -1
    assert wish(1, 0) == [ErrorCode.NONE]
    assert (partition.state.leader, partition.state.isr) == (1, (1,))
    everything = cluster.ask(ElectLeadersRequest(election_type=0, topic_partitions=None))
    assert [result.partition_result for result in everything.replica_election_results] == [[]]
    assert cluster.ask(ElectLeadersRequest(election_type=5)).error_code == ErrorCode.INVALID_REQUEST


def test_preferred_leaders_lead_again_after_a_while(cluster):
    partition = assigned(cluster, (1, 2))
    cluster.brokers[1].stop_cleanly()
    cluster.settle()
    assert partition.state.leader == 2
    cluster.brokers[1].start()
    cluster.settle()
    cluster.expand("t", 0, 1)
    cluster.advance(300_000)
    cluster.settle()
    assert (partition.state.leader, partition.state.leader_epoch, partition.state.isr) == (1, 2, (2, 1))


def test_controlled_shutdown_moves_leaders_and_isr_places(cluster):
    led = assigned(cluster, (1, 2, 0), name="led")
    followed = assigned(cluster, (0, 1), name="followed")
    alone = assigned(cluster, (1,), name="alone")
    response = shut_down(cluster, 1)
    assert (response.error_code, response.remaining_partitions) == (0, [])
    assert (led.state.leader, led.state.isr) == (2, (2, 0))
    assert followed.state.isr == (0,)
    assert (alone.state.leader, alone.state.isr, alone.state.leader_epoch) == (-1, (1,), 1)
    assert cluster.create("later", 3, 2).error_code == 0
    assert all(1 not in p.replicas for p in cluster.state.topics["later"].partitions.values())


@pytest.mark.parametrize("unclean", ["false", "true"])
def test_what_only_a_leaving_broker_can_lead_waits_for_its_return(cluster, unclean):
    """It may stop at once; its clean shutdown is the proof by which it leads again. A live replica that lags does not
    lead while the broker is leaving, not even where unclean elections are allowed."""
    cluster.create("t", assignments={0: (1, 2)}, configs={"unclean.leader.election.enable": unclean})
    partition = cluster.partition("t")
    cluster.brokers[2].kill()
    cluster.settle()
    cluster.brokers[2].start()
    cluster.settle()
    assert shut_down(cluster, 1).remaining_partitions == []
    assert (partition.state.leader, partition.state.isr) == (-1, (1,))
    cluster.brokers[1].stop_cleanly()
    cluster.brokers[1].start()
    cluster.settle()
    assert (partition.state.leader, partition.state.isr) == (1, (1,))


def test_no_unclean_leader_is_elected_while_a_member_that_lost_nothing_shuts_down(cluster):
    for _ in range(3):  # so that its epoch is no broker's id
        cluster.brokers[1].kill()
        cluster.brokers[1].start()
        cluster.settle()
    options = {"unclean.leader.election.enable": "true"}
    assert cluster.create("u", assignments={0: (1, 2)}, configs=options).error_code == 0
    partition = cluster.partition("u")
    cluster.brokers[2].kill()
    cluster.settle()
    cluster.brokers[2].start()
    cluster.settle()
    assert partition.state.isr == (1,)
    shut_down(cluster, 1)
    assert (partition.state.leader, partition.state.isr) == (-1, (1,))


def test_where_the_last_members_folder_failed_an_unclean_leader_is_elected_if_the_topic_allows_it(cluster):
    cluster.ghost.unclean_allowed = True
    for name, leader in (("allowed", 2), ("not allowed", -1)):
        options = {"unclean.leader.election.enable": str(name == "allowed").lower()}
        topic = name.replace(" ", "-")
        assert cluster.create(topic, assignments={0: (1, 2)}, configs=options).error_code == 0
        partition = cluster.partition(topic)
        cluster.brokers[2].kill()
        cluster.settle()
        cluster.brokers[2].start()
        cluster.settle()
        assert partition.state.isr == (1,)
        cluster.brokers[1].failed_folders.add((topic, 0))
        notify(cluster, 1)
        cluster.settle()
        assert partition.state.leader == leader, name


def test_a_broker_that_knows_a_later_controller_makes_this_one_look_whether_it_still_is(cluster):
    leader, partition = cluster.leader, assigned(cluster, (1, 2))
    session = cluster.tree.session()
    (node,) = session.apply([Read(tree.CONTROLLER_EPOCH)]).values
    session.apply([Write(tree.CONTROLLER_EPOCH, b"9", node.version)])
    cluster.brokers[1].controller_epoch = 9
    active = leader.controller.active
    active.term.pushes.push_roles([partition], only=1)
    leader.run(leader.controller.wake(cluster.now))
    cluster.settle()
    assert leader.controller.active is not active


def test_an_answer_brings_the_time_as_every_input_does(cluster):
    active = cluster.leader.controller.active
    later = Time(cluster.now.mono + 5_000, cluster.now.wall + 5_000)
    active.answered(-1, None, later)
    assert active.term.now == later


def test_controlled_shutdown_is_for_this_life_only(cluster):
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=cluster.brokers[1].epoch - 1)
    assert cluster.ask(request).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.ask(ControlledShutdownRequest(broker_id=9)).error_code == ErrorCode.BROKER_NOT_AVAILABLE


def test_a_failed_log_folder_moves_leadership_of_its_replicas(cluster):
    hit = assigned(cluster, (1, 2), name="hit")
    spared = assigned(cluster, (1, 2), name="spared")
    cluster.brokers[1].failed_folders.add(("hit", 0))
    notice = Create(f"{tree.LOG_DIR_EVENTS}/log_dir_event_1", tree.format_log_dir_event(1))
    cluster.brokers[1].session.apply([notice])
    cluster.settle()
    assert (hit.state.leader, hit.state.isr) == (2, (2,))
    assert (spared.state.leader, spared.state.isr) == (1, (1, 2))
    assert cluster.brokers[2].image.partition("hit", 0).offline == [1]
    assert cluster.tree.children(tree.LOG_DIR_EVENTS) == ()


def test_replicas_that_found_no_room_are_online_when_there_is_some(cluster):
    hit = assigned(cluster, (1,), name="hit")
    cluster.brokers[1].failed_folders.add(("hit", 0))
    for number in range(2):
        notice = Create(f"{tree.LOG_DIR_EVENTS}/log_dir_event_{number}", tree.format_log_dir_event(1))
        cluster.brokers[1].session.apply([notice])
        cluster.settle()
        assert (hit.state.leader, cluster.brokers[2].image.partition("hit", 0).offline) == ((-1, [1]), (1, []))[number]
        cluster.brokers[1].failed_folders.clear()
    assert hit.state.isr == (1,)


def notify(cluster, broker, number=0):
    """The broker says that one of its log folders failed, or has room again."""
    path = f"{tree.LOG_DIR_EVENTS}/log_dir_event_{number}"
    cluster.brokers[broker].session.apply([Create(path, tree.format_log_dir_event(broker))])


def behind_a_slow_store(cluster, before):
    """Carry out what is asked of the store until `before` holds, then deliver messages only."""
    while not before():
        cluster.step_any()
    cluster.submit(CreateTopicsRequest(topics=[CreatableTopic(name="other", num_partitions=1, replication_factor=1)]))
    assert cluster.stores
    while cluster.messages:
        cluster.step_message()


def is_told(cluster, broker):
    return lambda: any(target == broker for _, _, target, *_ in cluster.messages)


def test_what_a_life_told_of_its_folders_says_nothing_of_the_next(cluster):
    """Seed 3006191: the answer waited behind a slow store, and the next life was passed over in elections."""
    hit = assigned(cluster, (1, 2), name="hit")
    cluster.brokers[2].failed_folders.add(("hit", 0))
    notify(cluster, 2)
    behind_a_slow_store(cluster, is_told(cluster, 2))
    cluster.brokers[2].kill()
    cluster.brokers[2].failed_folders.clear()
    cluster.brokers[2].start()
    cluster.tell_events()
    cluster.settle()
    assert cluster.kinds("replicas.offline") == []
    assert hit.offline == frozenset()


def test_replicas_are_online_before_they_are_in_sync(cluster):
    hit = assigned(cluster, (1, 2), name="hit")
    cluster.brokers[2].failed_folders.add(("hit", 0))
    notify(cluster, 2)
    cluster.settle()
    assert (hit.state.isr, hit.offline) == ((1,), {2})
    cluster.brokers[2].failed_folders.clear()
    notify(cluster, 2, 1)
    behind_a_slow_store(cluster, is_told(cluster, 2))
    leader = cluster.brokers[1]
    members = [(1, leader.epoch), (2, cluster.brokers[2].epoch)]
    cluster.submit(AlterPartitionRequest(broker_id=1, broker_epoch=leader.epoch, topics=[cluster.wish(hit, members)]))
    while hit.state.isr == (1,):
        cluster.step_any()
    assert hit.offline == frozenset()


def test_everybody_hears_that_a_follower_is_online_again(cluster):
    """Its leader and the in-sync set are as before: nothing else would tell."""
    hit = assigned(cluster, (1, 2), name="hit")
    for failed, offline in (({("hit", 0)}, [2]), (set(), [])):
        cluster.brokers[2].failed_folders = failed
        notify(cluster, 2, len(offline))
        cluster.settle()
        assert (hit.state.isr, cluster.brokers[0].image.partition("hit", 0).offline) == ((1,), offline)


def test_another_broker_takes_over_from_a_dead_controller(cluster):
    assigned(cluster, (0, 1, 2))
    cluster.brokers[0].kill()
    cluster.settle()
    assert cluster.leader.id in (1, 2)
    assert cluster.leader.controller.epoch == 2
    assert cluster.partition("t").state.leader == 1
    assert {broker.image.controller_id for broker in cluster.brokers.values() if broker.alive} == {cluster.leader.id}


@pytest.mark.parametrize("multis", range(4))
def test_a_controller_that_dies_in_the_middle_of_a_creation_is_completed(cluster, multis):
    """The topic exists with its first multi; whatever part of its partitions is written, the next controller makes
    the rest, and the topic is whole."""
    cluster.submit(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=600, replication_factor=2)]))
    for _ in range(multis):
        cluster.step_store()
    cluster.stores.clear()
    cluster.brokers[0].kill()
    cluster.settle()
    if multis == 0:
        assert "t" not in cluster.state.topics
        return
    partitions = cluster.state.topics["t"].partitions
    assert len(partitions) == 600
    assert all(partition.state.leader in (1, 2) or partition.state.isr == (0,) for partition in partitions.values())
    assert len(cluster.brokers[1].image.topics["t"].partitions) == 600


@pytest.mark.parametrize("fate", ["lost", "answer lost"])
@pytest.mark.parametrize("before", range(4))
def test_unknown_outcomes_do_not_change_what_happens(cluster, fate, before):
    cluster.outcomes.extend([*["ok"] * before, fate])
    assert cluster.create("t", 400, 3).error_code == 0
    assert len(cluster.state.topics["t"].partitions) == 400
    cluster.outcomes.extend([*["ok"] * before, fate])
    cluster.brokers[1].kill()
    cluster.settle()
    assert all(p.state.leader in (0, 2) for p in cluster.state.topics["t"].partitions.values())
    assert all(p.version == 1 for p in cluster.state.topics["t"].partitions.values())


@pytest.mark.parametrize("fate", ["lost", "answer lost"])
def test_an_unknown_election_is_resolved_by_reading(fate):
    cluster = FakeCluster()
    cluster.outcomes.extend(["ok", fate])
    cluster.brokers[0].start()
    cluster.settle()
    assert cluster.leader.id == 0
    assert cluster.leader.controller.epoch == 1


def test_a_change_that_is_seen_while_the_controller_is_read_is_looked_at_soon_after(cluster):
    controller = Controller(7, cluster.config, entropy=bytes)
    (read,) = controller.elect(1, 0, Time(0, 0))
    assert controller.store_event(tree.CONTROLLER, Time(10, 0)) == [], "one read at a time"
    found = Node(tree.format_controller(2, 0), 0, 0, session=9), Node(tree.format_controller_epoch(3), 0, 0)
    assert controller.store_result(read.token, StoreResult("ok", (None, *found)), Time(20, 0)) == []
    assert controller.leader_id == 2
    (again,) = controller.wake(Time(controller.next_deadline, 0))
    assert again.operations == read.operations


def test_a_lost_session_is_resignation(cluster):
    old = cluster.brokers[0]
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    token = cluster.submit(request)
    cluster.tree.expire(old.session.session)
    effects = old.controller.session_lost(cluster.now)
    refusals = [effect for effect in effects if isinstance(effect, Reply)]
    assert [reply.token for reply in refusals] == [token]
    assert refusals[0].response.topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert not old.controller.leading
    assert old.controller.leader_id == -1


def test_a_deposed_controller_finds_out_at_its_next_write(cluster):
    """Its session ended, but it does not know: what it tries is refused by the controller epoch."""
    old = cluster.brokers[0]
    cluster.tree.expire(old.session.session)
    old.session = cluster.tree.session()
    cluster.brokers[1].run(cluster.brokers[1].controller.store_event(tree.CONTROLLER, cluster.now))
    while cluster.stores:
        cluster.step_store()
    assert cluster.brokers[1].controller.leading
    assert old.controller.leading
    token = next(cluster.tokens)
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    old.run(old.controller.handle(token, request, cluster.now))
    cluster.settle()
    assert not old.controller.leading
    assert cluster.replies[token].topics[0].error_code == ErrorCode.NOT_CONTROLLER
    assert tree.topic_path("t") not in cluster.tree.nodes


def test_a_request_to_a_broker_that_does_not_lead_is_refused(cluster):
    effects = cluster.brokers[1].controller.handle(5, ElectLeadersRequest(), cluster.now)
    assert [(e.token, e.response.error_code) for e in effects] == [(5, ErrorCode.NOT_CONTROLLER)]


def test_a_push_that_is_not_answered_is_sent_again(cluster):
    deaf = cluster.brokers[2]
    deaf.alive = False  # connections fail, but its registration stands
    token = cluster.submit(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=3)])
    )
    for _ in range(40):
        cluster.step_any()
    assert token not in cluster.replies
    deaf.alive = True
    cluster.settle()
    assert cluster.replies[token].topics[0].error_code == 0
    assert len(deaf.roles) == 3
    assert "t" in deaf.image.topics


def test_who_leads_again_in_the_same_epoch_goes_on_numbering(cluster):
    """The store was silent, but the session went on: brokers remember what it sent before."""
    first = cluster.leader
    last = max(broker.last_push for broker in cluster.brokers.values())
    first.run(first.controller.store_silent(cluster.now))
    first.run(first.controller.store_event(tree.CONTROLLER, cluster.now))
    cluster.settle()
    assert first.controller.leading
    assert all(broker.last_push > last and broker.last_push[0] == last[0] for broker in cluster.brokers.values())


def test_a_broker_that_holds_an_earlier_topic_of_that_name_hears_all_before_its_role_again(cluster, monkeypatch):
    """It was away from the deletion of what it holds; roles come before metadata, else."""
    broker = cluster.brokers[2]
    take, refused = broker.take_roles, []

    def refuse_once(request):
        if refused:
            return take(request)
        refused.append(request)
        (topic,) = request.topic_states
        error = LeaderAndIsrPartitionError(partition_index=0, error_code=ErrorCode.INCONSISTENT_TOPIC_ID)
        answer = LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=[error])
        return LeaderAndIsrResponse(topics=[answer])

    monkeypatch.setattr(broker, "take_roles", refuse_once)
    assert cluster.create("t", 1, 3).error_code == 0
    cluster.settle()
    assert ("t", 0) in broker.roles
    index = broker.received.index(refused[0])
    whole, again = broker.received[index + 1 : index + 3]
    assert isinstance(whole, UpdateMetadataRequest)
    assert whole.type == FULL
    assert isinstance(again, LeaderAndIsrRequest)
    assert again.topic_states[0].partition_states[0].is_new


def test_an_answer_does_not_wait_for_ever_for_a_broker_that_hangs(cluster):
    deaf = cluster.brokers[2]
    deaf.alive = False
    token = cluster.submit(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=3)])
    )
    for _ in range(500):
        cluster.step_any()
    assert cluster.replies[token].topics[0].error_code == 0


def test_a_conflict_makes_the_controller_read_the_tree_anew(cluster):
    """Somebody made a topic behind its back (as an operator's tool could)."""
    name = tree.topic_config_path("t")
    cluster.brokers[1].session.apply([Create(name, tree.format_config({"retention.ms": "5"}))])
    assert cluster.create("t", 1, 1).error_code == 0
    assert len(cluster.kinds("controller.loaded")) == 2
    assert tree.parse_config(cluster.tree.nodes[name].data) == {}


def test_where_brokers_are_reached_while_leading(cluster):
    assert cluster.leader.controller.endpoint(2).port == 9502
    assert cluster.leader.controller.endpoint(9) is None
    assert cluster.brokers[1].controller.endpoint(2) is None


def test_a_new_controller_reports_that_the_one_before_is_gone():
    """Nobody else will: when it died nobody watched the registrations."""
    cluster = FakeCluster().start()
    cluster.create("t", 1, 3)
    dead = cluster.leader
    dead.kill()
    cluster.settle()
    assert cluster.leader is not dead
    assert [fields["broker"] for fields in cluster.kinds("broker.gone")] == [dead.id]


def test_a_broker_that_took_a_number_that_was_never_sent_is_won_back_by_a_higher_epoch(cluster):
    """Somebody sent it a push with the right epoch and a number beyond all: it refuses what this term has to say."""
    deaf = cluster.brokers[1]
    hears = deaf.refusal
    deaf.refusal = lambda request: (
        hears(request) or (ErrorCode.STALE_CONTROLLER_EPOCH if request.controller_epoch == 1 else 0)
    )
    cluster.submit(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=3)]))
    cluster.settle()
    assert [event["epoch"] for event in cluster.kinds("controller.elected")] == [1, 2]
    assert len(deaf.roles) == 3
    assert deaf.image.topics.keys() == {"t"}


def test_a_controller_that_was_replaced_and_hears_it_from_a_broker_first_removes_nobodys_node(cluster):
    first, other = cluster.leader, cluster.brokers[1].session
    (epoch,) = other.apply([Read(tree.CONTROLLER_EPOCH)]).values
    node = Create(tree.CONTROLLER, tree.format_controller(1, 0), ephemeral=True)
    raised = Write(tree.CONTROLLER_EPOCH, tree.format_controller_epoch(2), epoch.version)
    assert other.apply([Delete(tree.CONTROLLER), node, raised]).outcome == "ok"
    active = first.controller.active
    active._run_once("step down", active._step_down)
    first.run(first.controller.wake(cluster.now))
    while cluster.stores and first.controller.leading:
        cluster.step_store()
    assert other.apply([Read(tree.CONTROLLER)]).values[0].data == node.data
    assert [event["why"] for event in cluster.kinds("controller.resigned")] == ["another controller was elected"]
