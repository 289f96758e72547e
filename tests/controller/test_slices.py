"""Requests that would hold the broker for seconds: refused before anything is computed, or carried out in slices."""

from collections import Counter

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller import pushes as pushes_module
from tidelog.controller.commands import topics as commands
from tidelog.controller.controller import Controller
from tidelog.controller.image import FULL, INCREMENTAL
from tidelog.controller.journal import SLICE
from tidelog.effects import Reply
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.wire.messages.cluster.controller_pushes import (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from tidelog.wire.messages.topics.topic_changes import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

INPUTS = ("handle", "store_result", "store_event", "answered", "wake")


@pytest.fixture
def cluster():
    return FakeCluster(num_partitions=1, default_replication_factor=2).start()


@pytest.fixture
def work(monkeypatch):
    """How many replica sets and states each input of a controller computed."""
    inputs, computed = [], Counter()

    def counted(name, function):
        def count(*arguments, **named):
            computed[name] += 1
            return function(*arguments, **named)

        return count

    def measured(function):
        def run(*arguments):
            computed.clear()
            try:
                return function(*arguments)
            finally:
                inputs.append(sum(computed.values()))

        return run

    for name in ("new_topic_id", "first_state", "_created", "_adopt"):
        monkeypatch.setattr(commands, name, counted(name, getattr(commands, name)))
    for name in INPUTS:
        monkeypatch.setattr(Controller, name, measured(getattr(Controller, name)))
    return inputs


def wishes(count, partitions=-1):
    return [
        CreatableTopic(name=f"t{number}", num_partitions=partitions, replication_factor=2) for number in range(count)
    ]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("count", "partitions"), [(40_000, -1), (2_000, 10_000), (2, 9_999)])
def test_more_partitions_than_one_request_may_make_are_refused_at_once(cluster, work, count, partitions, validate_only):
    stores = cluster.store_count
    answer = cluster.ask(CreateTopicsRequest(topics=wishes(count, partitions), validate_only=validate_only))
    assert {(each.error_code, each.error_message) for each in answer.topics} == {
        (ErrorCode.POLICY_VIOLATION, commands.TOO_MANY)
    }
    assert len(answer.topics) == count
    assert (cluster.store_count, max(work)) == (stores, 0)


def test_assignments_by_hand_count_too(cluster):
    by_hand = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0])] * 2
    given = CreatableTopic(name="hand", num_partitions=-1, replication_factor=-1, assignments=by_hand)
    answer = cluster.ask(CreateTopicsRequest(topics=[*wishes(9_999), given]))
    assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}


def test_many_topics_are_made_in_slices(cluster, work):
    answer = cluster.ask(CreateTopicsRequest(topics=wishes(1_000)))
    assert {each.error_code for each in answer.topics} == {0}
    assert max(work) <= 3 * SLICE
    assert len(cluster.state.topics) == 1_000
    for broker in cluster.brokers.values():
        assert broker.image.partition("t999", 0) is not None


def test_many_partitions_are_made_and_added_in_slices(cluster, work):
    assert cluster.create("wide", 2_000, 2).error_code == 0
    added = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="wide", count=5_000, assignments=None)], timeout_ms=1_000
    )
    assert cluster.ask(added).results[0].error_code == 0
    assert max(work) <= 3 * SLICE
    assert len(cluster.state.topics["wide"].partitions) == 5_000


def test_brokers_hear_of_many_partitions_in_several_requests(cluster):
    assert cluster.create("wide", 250, 3).error_code == 0
    assert cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=1_000)).responses
    for broker in cluster.brokers.values():
        sizes = {cls: [] for cls in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)}
        for request in broker.received:
            if count := sum(len(topic.partition_states) for topic in request.topic_states):
                sizes[type(request)].append(count)
        assert list(sizes.values()) == [[20] * 12 + [10], [250, 250], [20] * 12 + [10]]


def metadata_of(broker):
    """The UpdateMetadata requests with partitions: type, part, whether more follow, how many partitions."""
    return [
        (
            request.type,
            request.part,
            request.has_more,
            sum(len(topic.partition_states) for topic in request.topic_states),
        )
        for request in broker.received
        if isinstance(request, UpdateMetadataRequest) and request.topic_states
    ]


PARTS = [(0, True, 1_000), (1, True, 1_000), (2, False, 500)]


def in_parts(kind):
    return [(kind, *part) for part in PARTS]


def test_metadata_of_many_partitions_comes_in_parts(cluster):
    assert cluster.create("wide", 2_500, 2).error_code == 0
    cluster.brokers[2].kill()
    cluster.settle(limit=100_000)
    for broker in cluster.brokers.values():
        broker.received.clear()
    cluster.brokers[2].start()
    cluster.settle(limit=100_000)
    assert metadata_of(cluster.brokers[2])[:3] == in_parts(FULL)
    assert len(cluster.brokers[2].image.topics["wide"].partitions) == 2_500


def test_a_topic_is_not_seen_before_the_last_part(cluster):
    """Clients would see a topic that grows."""
    seen = []
    for broker in cluster.brokers.values():
        apply = broker.image.apply

        def noted(request, apply=apply, image=broker.image):
            answer = apply(request)
            seen.append(len(image.topics["wide"].partitions) if "wide" in image.topics else 0)
            return answer

        broker.image.apply = noted
    assert cluster.create("wide", 2_500, 2).error_code == 0
    assert set(seen) == {0, 2_500}
    assert metadata_of(cluster.brokers[1])[-3:] == in_parts(INCREMENTAL)


def taken(cluster, broker):
    """The next request to the broker, which is not delivered yet."""
    controller = cluster.leader.controller
    requests = controller.active.term.pushes.take(cluster.now.mono, controller.last_token + 1)
    controller.last_token += len(requests)
    return next(request for request in requests if request.target == broker.id)


def test_what_changes_behind_a_part_follows(cluster):
    """And parts begin again where one failed."""
    assert cluster.create("wide", 2_500, 2).error_code == 0
    broker = next(b for b in cluster.brokers.values() if b is not cluster.leader)
    pushes = cluster.leader.controller.active.term.pushes
    queue = pushes.queues[broker.id]
    broker.received.clear()
    partitions = list(cluster.state.partitions())
    pushes.push_metadata(partitions)
    first = taken(cluster, broker)
    assert (first.request.part, first.request.has_more) == (0, True)
    pushes.push_metadata(partitions[:1])
    assert list(queue.metadata) == partitions[:1]
    pushes.answered(first.token, None, cluster.now.mono)
    assert queue.metadata.keys() == {*partitions}
    cluster.settle()
    assert metadata_of(broker) == in_parts(INCREMENTAL)
    broker.received.clear()

    pushes.push_metadata(partitions)
    first = taken(cluster, broker)
    pushes.push_metadata(partitions[:1])
    pushes.answered(first.token, broker.receive(first.request), cluster.now.mono)
    assert not queue.idle
    cluster.settle()
    assert metadata_of(broker) == [*in_parts(INCREMENTAL), (INCREMENTAL, 0, False, 1)]
    assert queue.idle


def test_metadata_of_many_brokers_is_gathered_between_two_pushes(cluster, monkeypatch):
    """Every registration and in-sync change concerns all brokers: else each of a hundred would get one push for each."""
    assert [pushes_module.pause_between_metadata_ms(brokers) for brokers in (3, 9, 10, 100)] == [0, 0, 1, 100]
    assert cluster.create("wide", 30, 2).error_code == 0
    monkeypatch.setattr(pushes_module, "pause_between_metadata_ms", lambda _: 100)
    broker = next(b for b in cluster.brokers.values() if b is not cluster.leader)
    pushes, queue = cluster.leader.controller.active.term.pushes, None
    queue, partitions = pushes.queues[broker.id], list(cluster.state.partitions())
    pushes.push_metadata(partitions[:1])
    first = taken(cluster, broker)
    pushes.answered(first.token, broker.receive(first.request), cluster.now.mono)
    for partition in partitions:
        pushes.push_metadata([partition])
        assert queue.next_kind() is None
        assert not queue.idle
    assert queue.next_deadline == cluster.now.mono + 100
    pushes.push_roles(partitions[:1], only=broker.id)
    assert queue.next_kind() == "roles"  # which never wait
    queue.roles.clear()
    asks = pushes.take(cluster.now.mono + 100, first.token + 1_000)
    (ask,) = [each for each in asks if each.target == broker.id]
    assert sum(len(topic.partition_states) for topic in ask.request.topic_states) == len(partitions)


def test_full_metadata_takes_the_place_of_parts_that_are_left(cluster):
    assert cluster.create("wide", 2_500, 2).error_code == 0
    broker = next(b for b in cluster.brokers.values() if b is not cluster.leader)
    pushes = cluster.leader.controller.active.term.pushes
    broker.received.clear()
    pushes.push_metadata(list(cluster.state.partitions()))
    first = taken(cluster, broker)
    pushes.queues[broker.id].full = True
    pushes.answered(first.token, broker.receive(first.request), cluster.now.mono)
    cluster.settle()
    assert metadata_of(broker) == [(INCREMENTAL, *PARTS[0]), *in_parts(FULL)]
    assert len(broker.image.topics["wide"].partitions) == 2_500


def test_partitions_that_are_added_to_many_topics_are_counted_together(cluster):
    for name in "ab":
        cluster.create(name)
    wish = [CreatePartitionsTopic(name=name, count=5_002, assignments=None) for name in "ab"]
    answer = cluster.ask(CreatePartitionsRequest(topics=wish, timeout_ms=1_000))
    assert {each.error_code for each in answer.results} == {ErrorCode.POLICY_VIOLATION}
    assert len(cluster.state.topics["a"].partitions) == 1


def test_a_command_of_an_ended_term_does_not_go_on(cluster):
    leader = cluster.leader
    cluster.submit(CreateTopicsRequest(topics=wishes(1_000)))
    assert leader.controller.next_deadline <= cluster.now.mono, "it pauses"
    effects = leader.controller.session_lost(cluster.now)
    (answer,) = [each.response for each in effects if isinstance(each, Reply)]
    assert {each.error_code for each in answer.topics} == {ErrorCode.NOT_CONTROLLER}
    assert leader.controller.wake(Time(cluster.now.mono + 10_000, cluster.now.wall)) == []
    assert not cluster.stores
