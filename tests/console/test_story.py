"""The last election as a playback: from a list of events, without a cluster."""

from tidelog.console.diagnosis import BrokerEvent
from tidelog.console.observer import Position
from tidelog.console.story import SHOWN, playback
from tidelog.console.topology import Topology, events_between
from tidelog.model import TopicPartition
from tidelog.wire.messages.topics.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NAME = TopicPartition("t", 0)


def event(ms, reporter, kind, **fields):
    return BrokerEvent(ms, reporter, ms, kind, "info", {"topic": "t", "partition": 0, **fields})


EVENTS = [
    event(100_000, 1, "broker.gone", broker=0),
    event(100_010, 1, "partition.elected", leader=1, leader_epoch=5, isr=[1], previous_isr=[0, 1], previous_leader=0, why=""),
    event(100_020, 1, "partition.leader", epoch=5, end=1000, high_watermark=999),
    event(101_000, 0, "partition.follower", leader=1, epoch=5, end=1003, high_watermark=998),
    event(101_010, 0, "log.truncate", before=1003, offset=1000),
    event(102_000, 1, "isr.change", isr=[1, 0], previous_isr=[1], leader_epoch=5, why=""),
]  # fmt: skip


def test_each_event_is_a_step_with_what_is_known_of_every_replica():
    told = playback(NAME, [0, 1], EVENTS, {0: Position(1005, 1005), 1: Position(1005, 1005)}, 100_010)
    assert told.base == 1000 - SHOWN
    assert len(told.steps) == len(EVENTS) + 1
    roles = [[replica.role for replica in step.replicas] for step in told.steps]
    assert roles[0] == ["down", "follower"]
    assert roles[1] == ["down", "leader"]
    assert roles[3] == ["follower", "leader"]
    ends = [[replica.leo + told.base for replica in step.replicas] for step in told.steps]
    assert [each[0] for each in ends[3:]] == [1003, 1000, 1000, 1005]
    assert told.steps[3].replicas[0].hw + told.base == 998
    last = told.steps[-1].replicas
    assert [record.epoch for record in last[0].records][-5:] == [5] * 5, "written by the new leader"
    assert last[0].records[0].epoch == 4
    assert told.verdict.ok


def test_replicas_that_differ_now_are_told_as_such():
    told = playback(NAME, [0, 1], EVENTS[:2], {1: Position(7, 7), 0: Position(3, 3)}, 100_010)
    assert not told.verdict.ok
    assert told.base == 0


def test_what_two_looks_at_a_cluster_tell():
    def look(leader, epoch, isr, brokers):
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[0, 1], isr_nodes=isr
        )
        found = [MetadataResponseBroker(node_id=each, host="h", port=1) for each in brokers]
        return Topology.of(
            MetadataResponse(brokers=found, topics=[MetadataResponseTopic(name="t", partitions=[partition])])
        )

    before = look(0, 4, [0, 1], [0, 1])
    assert list(events_between(before, before, 1)) == []
    after = look(1, 5, [1], [1])
    assert [each.kind for each in events_between(before, after, 1)] == ["broker.gone", "partition.elected"]
    assert [each.kind for each in events_between(after, look(1, 5, [1, 0], [0, 1]), 1)] == [
        "broker.registered",
        "isr.change",
    ]
    assert (before.under_replicated, after.under_replicated, after.offline) == (0, 1, 0)
    assert look(-1, 5, [], [1]).offline == 1
