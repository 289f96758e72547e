"""A broker that is its own controller makes and deletes many replicas: few in each input, so that it serves others in
between. And what it does for one replica does not depend on how many others there are."""

import sys

import pytest

from tests.node.one_broker import CLIENT, OneBroker
from tidelog.controller import pushes
from tidelog.model import TopicPartition
from tidelog.node.replicas import HeldReplicas
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

MOST = 20
PARTITIONS = 3 * MOST + 1
INPUTS = PARTITIONS // MOST + 1


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(pushes, "ROLES_PER_REQUEST", MOST)
    monkeypatch.setattr(pushes, "CREATIONS_PER_REQUEST", MOST)
    found = OneBroker(alive=(), default_replication_factor=1, min_insync_replicas=1)
    found.give("session_started", found.session.session)
    return found


@pytest.fixture
def changes(broker, monkeypatch):
    """How many replicas each input made or deleted."""
    counts = []

    def counted(function):
        def run(*arguments, **named):
            counts[-1] += 1
            return function(*arguments, **named)

        return run

    def carry_out(effects):
        counts.append(0)
        plain(effects)

    plain = broker._carry_out
    counts.append(0)
    monkeypatch.setattr(broker, "_carry_out", carry_out)
    monkeypatch.setattr(HeldReplicas, "_hold", counted(HeldReplicas._hold))
    monkeypatch.setattr(HeldReplicas, "_forget", counted(HeldReplicas._forget))
    return counts


def settled(broker, request, version):
    number = broker.send(request, CLIENT, version)
    while number not in broker.answers:
        broker._at(max(broker.now.mono, broker.node.next_deadline))
        broker.give("wake")
    return broker.answers[number]


@pytest.mark.parametrize(("topics", "each"), [(1, PARTITIONS), (PARTITIONS, 1)])
def test_many_replicas_come_and_go_in_parts(broker, changes, topics, each):
    names = [f"topic-{number}" for number in range(topics)]
    created = [CreatableTopic(name=name, num_partitions=each, replication_factor=1) for name in names]
    answer = settled(broker, CreateTopicsRequest(topics=created, timeout_ms=60_000), 7)
    assert {result.error_code for result in answer.topics} == {0}
    assert len(broker.node.replicas) == sum(changes) == PARTITIONS
    assert max(changes) == MOST
    assert sum(map(bool, changes)) == INPUTS
    changes[:] = [0]
    gone = [DeleteTopicState(name=name) for name in names]
    answer = settled(broker, DeleteTopicsRequest(topics=gone, timeout_ms=60_000), 6)
    assert {result.error_code for result in answer.responses} == {0}
    assert len(broker.node.replicas) == 0
    assert sum(changes) == PARTITIONS
    assert max(changes) == MOST


def test_a_topic_becomes_visible_as_a_whole(broker):
    seen = set()
    number = broker.send(
        CreateTopicsRequest(
            topics=[CreatableTopic(name="wide", num_partitions=PARTITIONS, replication_factor=1)], timeout_ms=60_000
        ),
        CLIENT,
        7,
    )
    while number not in broker.answers:
        broker._at(max(broker.now.mono, broker.node.next_deadline))
        broker.give("wake")
        topic = broker.node.broker.image.topics.get("wide")
        seen.add(0 if topic is None else len(topic.partitions))
    assert seen == {0, PARTITIONS}


def held(count):
    """A broker with so many topics of one partition."""
    broker = OneBroker()
    for number in range(count):
        broker.lead(isr=(0,), replicas=(0,), topic=f"t{number}", topic_id=number.to_bytes(16))
    return broker


def calls_to_forget_one(count):
    replicas = held(count).node.replicas
    partition = replicas.get("t1", 0)
    calls = 0

    def called(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(called)
    try:
        replicas._forget(partition)
    finally:
        sys.setprofile(None)
    return calls


def test_a_replica_is_forgotten_without_a_look_at_the_others():
    assert calls_to_forget_one(200) == calls_to_forget_one(2)


def test_replicas_are_listed_in_order_whatever_came_and_went():
    broker = held(12)
    replicas = broker.node.replicas
    for gone in ("t10", "t0"):
        assert [each.name for each in replicas.within("/data")] == sorted(each.name for each in replicas)
        replicas.delete(TopicPartition(gone, 0))
    broker.lead(isr=(0,), replicas=(0,), topic="t10", topic_id=bytes(range(16)))
    assert [each.name for each in replicas.within("/data")] == sorted(each.name for each in replicas)
    assert len(replicas) == 11
    assert replicas.topic_name((0).to_bytes(16)) is None
    assert replicas.topic_name(bytes(range(16))) == "t10"
