"""Batches that were encoded elsewhere: what is sent of them, and what becomes of one that a broker finds too large."""

from tidelog.client.sending.batch import EncodedBatch, EncodedRecords
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire import records
from tidelog.wire.records import BatchBuilder, Record

PLACE = TopicPartition("topic", 3)
CONTENT = [Record(0, 1_000 + number, b"k%d" % number, b"v" * number) for number in range(5)]


def batch() -> EncodedBatch:
    builder = BatchBuilder()
    for record in CONTENT:
        builder.append(record)
    content = EncodedRecords(builder.payload, len(builder), builder.base_timestamp, builder.max_timestamp)
    return EncodedBatch(PLACE, 0, 7, content)


def test_it_is_the_batch_that_its_records_would_have_made():
    made = batch()
    made.stamp(11, 2, 40)
    found = records.header(made.encoded(0))
    assert (found.count, found.producer_id, found.producer_epoch, found.base_sequence) == (5, 11, 2, 40)
    assert (found.base_timestamp, found.max_timestamp) == (1_000, 1_004)
    assert [record._replace(offset=0) for record in records.records(made.encoded(0))] == CONTENT
    assert records.crc_holds(made.encoded(0), found)


def test_one_delivery_reports_all_its_records():
    (told,) = batch().delivered(100, -1)
    assert (told.ticket, told.topic, told.partition, told.offset, told.timestamp) == (7, "topic", 3, 100, 1_000)
    (failed,) = batch().failed(ErrorCode.REQUEST_TIMED_OUT, "why")
    assert (failed.ticket, failed.error, failed.message) == (7, ErrorCode.REQUEST_TIMED_OUT, "why")


def test_halves_have_the_records_in_their_order_and_report_their_own_deliveries():
    parts = batch().split()
    assert [part.count for part in parts] == [2, 3]
    assert [part.delivery_count for part in parts] == [1, 1]
    found = [record for part in parts for record in records.records(part.encoded(0))]
    assert [record.offset for record in found] == [0, 1, 0, 1, 2]
    assert [record._replace(offset=0) for record in found] == CONTENT
