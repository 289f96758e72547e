"""ListOffsets: first, last and by time; what a new leader may not report yet (rule 9); epochs (rule 7)."""

import pytest

from tests.node.one_broker import CLIENT, TOPIC, WALL, OneBroker
from tidelog.errors import ErrorCode
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.wire.records import Record, build

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -5, -6
CONSUMER, REPLICA, DEBUGGER = -1, 1, -2
READ_COMMITTED = 1


def listed(broker, timestamp, *, epoch=-1, by=CONSUMER, version=7, isolation=0):
    """(error code, offset)."""
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[asked])]
    request = ListOffsetsRequest(replica_id=by, isolation_level=isolation, topics=topics)
    answer = broker.ask(request, CLIENT, version).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.offset


def committed(broker, *records):
    broker.connect(3)
    for record in records:
        broker.produce(records=build([record]), connection=3)
        for replica in (1, 2):
            broker.fetch_as(replica, broker.partition().log.log_end_offset, epoch=broker.partition().epoch)
    return broker


@pytest.fixture
def broker():
    broker = OneBroker()
    broker.lead()
    records = [Record(0, WALL + second * 1000, b"k", b"v") for second in (1, 3, 2)]
    return committed(broker, *records)


def test_the_first_the_last_and_the_latest_in_time(broker):
    assert listed(broker, EARLIEST) == (0, 0)
    assert listed(broker, LATEST) == (0, 3)
    assert listed(broker, MAX_TIMESTAMP) == (0, 1)


@pytest.mark.parametrize(("timestamp", "version"), [(LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)])
def test_nothing_is_in_remote_storage_or_waits_for_it(broker, timestamp, version):
    assert listed(broker, timestamp, version=version) == (0, -1)


def test_by_time_the_first_record_that_is_not_older(broker):
    assert listed(broker, WALL) == (0, 0)
    assert listed(broker, WALL + 1001) == (0, 1)
    assert listed(broker, WALL + 3000) == (0, 1)
    assert listed(broker, WALL + 3001) == (0, -1)


def test_consumers_hear_of_what_is_committed_only_and_replicas_of_all(broker):
    broker.produce(records=build([Record(0, WALL + 9000, b"k", b"v")]), connection=3)
    assert listed(broker, LATEST) == (0, 3)
    assert listed(broker, WALL + 9000) == (0, -1)
    assert listed(broker, LATEST, by=REPLICA) == (0, 4)


def test_a_new_leader_does_not_report_the_end_before_its_watermark_reached_its_epochs_start(broker):
    broker.produce(records=build([Record(0, WALL + 9000, b"k", b"v")]), connection=3)
    broker.lead(epoch=1, partition_epoch=1)
    assert listed(broker, LATEST)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert listed(broker, WALL + 9000)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert listed(broker, LATEST, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE, "for clients that do not know it"
    assert listed(broker, EARLIEST) == (0, 0)
    for replica in (1, 2):
        broker.fetch_as(replica, 4, epoch=1, last_epoch=0)
    assert listed(broker, LATEST) == (0, 4)


def test_a_transaction_from_before_the_epoch_keeps_nobody_from_the_last_stable_offset(broker):
    begun = build([Record(0, WALL, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0, attributes=0x10)
    broker.partition().append(begun, 1, broker.now)
    broker.lead(epoch=1, partition_epoch=1)
    committed(broker, Record(0, WALL, b"k", b"v"))
    assert broker.partition().high_watermark == 5
    assert listed(broker, LATEST) == (0, 5)
    assert listed(broker, LATEST, isolation=READ_COMMITTED) == (0, 3)
    assert listed(broker, WALL, isolation=READ_COMMITTED) == (0, 0)


def test_epochs_that_differ_and_followers_are_refused(broker):
    broker.lead(epoch=2, partition_epoch=1)
    assert listed(broker, EARLIEST, epoch=1)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert listed(broker, EARLIEST, epoch=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert listed(broker, EARLIEST, epoch=2) == (0, 0)
    broker.follow(epoch=3, partition_epoch=2)
    assert listed(broker, EARLIEST)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert listed(broker, LATEST, by=DEBUGGER) == (0, 3)


def test_a_replica_without_a_role_has_no_last_offset_for_anybody():
    broker = OneBroker()
    broker.lead()
    broker.delete()
    assert listed(broker, LATEST)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert listed(broker, LATEST, by=DEBUGGER)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
