"""Requests that would hold the broker for seconds: refused before anything is computed, or carried out in slices."""

from collections import Counter

import pytest

from tests.controller.fake_cluster import FakeCluster
from tidelog.controller.commands import topics as commands
from tidelog.controller.controller import Controller
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
    """Only a topic's metadata changes as a whole, for clients would see a topic that grows."""
    assert cluster.create("wide", 250, 3).error_code == 0
    assert cluster.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="wide")], timeout_ms=1_000)).responses
    for broker in cluster.brokers.values():
        sizes = {cls: [] for cls in (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)}
        for request in broker.received:
            if count := sum(len(topic.partition_states) for topic in request.topic_states):
                sizes[type(request)].append(count)
        assert list(sizes.values()) == [[20] * 12 + [10], [250, 250], [50] * 5]


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
