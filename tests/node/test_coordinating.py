"""Leading a partition of the groups' topic is coordinating its groups: what goes wrong with it, and where it ends."""

import pytest

from tests.node.one_broker import OneBroker, values
from tidelog.alarms import NEVER
from tidelog.coordinator.group import GroupCoordinator
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import GROUP_TOPIC
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataPartitionState, UpdateMetadataTopicState


@pytest.fixture
def heard(monkeypatch):
    """The calls of the group coordinator, in order."""
    told = []
    for name in ("elected", "loaded", "resigned"):
        monkeypatch.setattr(
            GroupCoordinator, name, lambda _self, index, *_rest, name=name: told.append((name, index)) or []
        )
    return told


def test_a_failed_folder_ends_the_coordination_at_once(heard):
    broker = OneBroker(folders=("/data", "/other"))
    broker.lead(topic=GROUP_TOPIC)
    assert heard == [("elected", 0), ("loaded", 0)]
    broker.give("disk_failed", 0, "/data", "EIO")
    assert heard[2:] == [("resigned", 0)]


def test_a_new_epoch_goes_on_with_what_was_loaded_and_following_ends_it(heard):
    broker = OneBroker()
    broker.lead(topic=GROUP_TOPIC)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=1)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=2, isr=(0, 1))
    broker.follow(topic=GROUP_TOPIC, epoch=2, partition_epoch=3)
    assert heard == [("elected", 0), ("loaded", 0), ("elected", 0), ("resigned", 0)]


def test_damaged_records_do_not_end_the_broker(heard, monkeypatch):
    broker = OneBroker()
    broker.follow(topic=GROUP_TOPIC)
    log = broker.node.replicas.get(GROUP_TOPIC, 0).log
    log.append_as_leader(bytearray(values("m")), 0, broker.now)

    def rotten(*_arguments, **_options):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE)

    monkeypatch.setattr(log, "read", rotten)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=1)
    broker.passes(5_000)
    assert heard == [("elected", 0)], "it would know nothing of what cannot be read"
    assert [event.kind for event in broker.events if event.level == "error"] == ["coordinator.incomplete"]
    monkeypatch.undo()
    broker.passes(1_000)
    assert broker.node.coordinating.alarm.at == NEVER


def test_a_partition_is_tried_again_in_time_whatever_news_another_has(heard, monkeypatch):
    broker = OneBroker()
    rotten = {0, 1}
    for index in rotten:
        broker.follow(topic=GROUP_TOPIC, index=index)
        log = broker.node.replicas.get(GROUP_TOPIC, index).log
        log.append_as_leader(bytearray(values("m")), 0, broker.now)

        def read(*arguments, index=index, sound=log.read, **options):
            if index in rotten:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE)
            return sound(*arguments, **options)

        monkeypatch.setattr(log, "read", read)
        broker.lead(topic=GROUP_TOPIC, index=index, epoch=1, partition_epoch=1)
    rotten.discard(0)
    monkeypatch.setattr(GroupCoordinator, "load", lambda *_: [])
    for _ in range(4):
        broker.passes(400)
        broker.node.replicas.get(GROUP_TOPIC, 1).mark_dirty()
        broker.give("wake")
    assert ("loaded", 0) in heard
    assert ("loaded", 1) not in heard


def test_a_topic_that_was_replaced_within_one_push_is_a_deleted_one(monkeypatch):
    told = []
    monkeypatch.setattr(GroupCoordinator, "topics_deleted", lambda _self, names, _now: told.append(set(names)) or [])
    broker = OneBroker()

    def push(**ids):
        partition = UpdateMetadataPartitionState(partition_index=0, leader=1, isr=[1], replicas=[1])
        topics = [
            UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=[partition])
            for name, topic_id in ids.items()
        ]
        broker.live(0, 1, topic_states=topics)
        return told.pop()

    assert push(t=b"1" * 16, u=b"2" * 16) == set()
    assert push(t=b"1" * 16, u=b"2" * 16) == set()
    assert push(t=b"3" * 16, u=b"2" * 16) == {"t"}
