"""Leading a partition of the groups' topic is coordinating its groups: what goes wrong with it, and where it ends."""

import pytest

from tests.node.one_broker import OneBroker, values
from tidelog.coordinator.group import GroupCoordinator
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import GROUP_TOPIC


@pytest.fixture
def heard(monkeypatch):
    """What the group coordinator is told, in order."""
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


def test_a_new_epoch_loads_anew_and_following_ends_it(heard):
    broker = OneBroker()
    broker.lead(topic=GROUP_TOPIC)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=1)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=2, isr=(0, 1))
    broker.follow(topic=GROUP_TOPIC, epoch=2, partition_epoch=3)
    assert heard == [("elected", 0), ("loaded", 0), ("elected", 0), ("loaded", 0), ("resigned", 0)]


def test_damaged_records_do_not_end_the_broker(heard, monkeypatch):
    broker = OneBroker()
    broker.follow(topic=GROUP_TOPIC)
    log = broker.node.replicas.get(GROUP_TOPIC, 0).log
    log.append_as_leader(bytearray(values("m")), 0, broker.now)

    def rotten(*_arguments, **_options):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE)

    monkeypatch.setattr(log, "read", rotten)
    broker.lead(topic=GROUP_TOPIC, epoch=1, partition_epoch=1)
    assert heard == [("elected", 0), ("loaded", 0)]
    assert [event.kind for event in broker.events if event.level == "error"] == ["coordinator.incomplete"]
