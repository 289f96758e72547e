"""DeleteRecords: the log's start moves at once, the answer comes when every live replica has followed (KIP-107)."""

import pytest

from tests.node.one_broker import TOPIC, OneBroker
from tidelog.errors import DiskFailed, ErrorCode
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)


@pytest.fixture
def broker():
    """Three committed records."""
    broker = OneBroker()
    broker.lead()
    broker.connect(3)
    for text in ("m1", "m2", "m3"):
        broker.produce(text, connection=3)
    broker.fetch_as(1, 3)
    broker.fetch_as(2, 3)
    return broker


def delete(broker, offset, timeout_ms=1_000):
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[asked])
    return broker.send(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms))


def deleted(broker, number):
    """(error code, low watermark); None while there is no answer."""
    if number not in broker.answers:
        return None
    answer = broker.answers[number].topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


def test_the_answer_comes_when_the_slowest_live_replica_has_followed(broker):
    number = delete(broker, 2)
    assert broker.partition().log.log_start_offset == 2
    broker.fetch_as(1, 3, log_start=2)
    assert deleted(broker, number) is None
    broker.fetch_as(2, 3, log_start=2)
    assert deleted(broker, number) == (0, 2)


def test_a_replica_that_does_not_follow_in_time_is_told_so(broker):
    number = delete(broker, 2)
    broker.fetch_as(1, 3, log_start=2)
    broker.passes(1_000)
    assert deleted(broker, number) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_dead_replica_is_not_waited_for(broker):
    number = delete(broker, 2)
    broker.fetch_as(1, 3, log_start=2)
    broker.live(0, 1)
    assert deleted(broker, number) == (0, 2)


def test_nothing_above_the_high_watermark_is_deleted(broker):
    broker.produce("not committed", connection=3)
    assert deleted(broker, delete(broker, 4)) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    delete(broker, -1)
    assert broker.partition().log.log_start_offset == 3


def test_who_waits_hears_that_the_leadership_is_lost(broker):
    number = delete(broker, 2)
    broker.follow(epoch=1, partition_epoch=1)
    assert deleted(broker, number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_who_waits_hears_that_the_topic_is_gone_even_where_another_has_its_name(broker):
    number = delete(broker, 2)
    broker.lead(topic_id=b"another topic id")
    assert deleted(broker, number) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_disk_that_refuses_is_an_error_and_not_the_end_of_the_connection(broker, monkeypatch):
    def refuse(_log, _offset):
        raise DiskFailed("/data", "EIO")

    monkeypatch.setattr(type(broker.partition().log), "advance_start", refuse)
    number = delete(broker, 2)
    assert deleted(broker, number) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert broker.closed == []
