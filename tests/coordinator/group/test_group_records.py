"""The records of the group topic, byte for byte as Kafka 4.3.1 writes them."""

import struct

import pytest

from tests.coordinator.group.harness import WALL, GroupHarness, subscription
from tidelog.coordinator.contract import Change
from tidelog.coordinator.group import records
from tidelog.errors import CorruptLog
from tidelog.wire.messages.groups.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.wire.records import Record, build


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_a_committed_offset_is_a_key_of_type_1_and_a_value_of_version_4():
    harness = GroupHarness()
    harness.commit({("t", 3): 5}, metadata="m")
    ((key, value),) = harness.log.keys_and_values()
    assert key == struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 3)
    assert value == struct.pack(">hqi", 4, 5, -1) + b"\x02m" + struct.pack(">q", WALL) + b"\x00"


def test_the_topics_id_is_a_tagged_field():
    harness = GroupHarness()
    harness.commit({("t", 0): 5}, topic_id=b"i" * 16)
    ((_, value),) = harness.log.keys_and_values()
    assert value == struct.pack(">hqi", 4, 5, -1) + b"\x01" + struct.pack(">q", WALL) + b"\x01\x00\x10" + b"i" * 16


def test_a_retention_time_of_its_own_makes_a_value_of_version_1():
    harness = GroupHarness()
    harness.commit({("t", 0): 5}, version=2, retention=1000)
    ((_, value),) = harness.log.keys_and_values()
    assert value == struct.pack(">hq", 1, 5) + text("") + struct.pack(">qq", WALL, WALL + 1000)


def test_a_group_is_a_key_of_type_2_and_a_value_of_version_3():
    harness = GroupHarness()
    (a,), _ = harness.stable()
    (new_key, new_value), (key, value) = harness.log.keys_and_values()
    assert new_key == key == struct.pack(">h", 2) + text("g")
    nobody = text("") + struct.pack(">ihhqi", 0, -1, -1, WALL, 0)
    assert new_value == struct.pack(">h", 3) + nobody
    head = text("consumer") + struct.pack(">i", 1) + text("range") + text(a) + struct.pack(">q", WALL + 3_000)
    member = (
        text(a)
        + struct.pack(">h", -1)
        + text("client")
        + text("/127.0.0.1")
        + struct.pack(">ii", 60_000, 10_000)
        + struct.pack(">i", len(subscription("t")))
        + subscription("t")
        + struct.pack(">i", len(a))
        + a.encode()
    )
    assert value == struct.pack(">h", 3) + head + struct.pack(">i", 1) + member


@pytest.mark.parametrize(
    "change",
    [
        Change(OffsetCommitKey(group="g", topic="t", partition=1), OffsetCommitValue(offset=4, metadata="x")),
        Change(OffsetCommitKey(group="g", topic="t", partition=1), OffsetCommitValue(expire_timestamp=9)),
        Change(OffsetCommitKey(group="/", topic="t"), None),
        Change(GroupMetadataKey(group=""), GroupMetadataValue(protocol=None, leader=None, generation=3)),
        Change(GroupMetadataKey(group="g"), None),
    ],
)
def test_what_is_written_is_read_back(change):
    assert records.decode(*records.encode(change)) == change


def test_older_and_newer_records_of_kafka_are_understood_or_passed_over():
    old = records.decode(
        struct.pack(">h", 0) + text("g") + text("t") + struct.pack(">i", 0),
        struct.pack(">hq", 0, 7) + text("") + struct.pack(">q", 1),
    )
    assert old == Change(OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=7, commit_timestamp=1))
    assert records.decode(struct.pack(">h", 11) + text("share group"), b"\x00\x00") is None


@pytest.mark.parametrize("key", [b"", b"\x00", struct.pack(">h", 1) + b"\x00\x05g"])
def test_garbage_is_no_change(key):
    with pytest.raises(CorruptLog):
        records.decode(key, b"")


def test_garbage_in_the_log_is_reported_and_passed_over():
    harness = GroupHarness()
    harness.commit({("t", 0): 1})
    harness.log.append(build([Record(key=b"?", value=b"?")]))
    harness.log.append(build([Record(key=None, value=b"?")]))
    broken = bytearray(build([Record(key=b"?", value=b"?")]))
    broken[-3:] = b"\xff\xff\xff"
    harness.log.append(bytes(broken))
    harness.commit({("t", 0): 2})
    after = harness.failover()
    assert after.positions() == {("t", 0): 2}
    assert [event.fields["offset"] for event in after.events if event.kind == "coordinator.unreadable"] == [1, 3]
