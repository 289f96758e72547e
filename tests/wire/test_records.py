"""Record batches: what is built reads back, here and in other clients; what is bad is refused with Kafka's code."""

import warnings

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.errors import ApiError, ErrorCode
from tidelog.wire import record_format, records
from tidelog.wire.compression import Compression
from tidelog.wire.records import Marker, Record

with warnings.catch_warnings(action="ignore"):  # its import uses a function that Python deprecates
    import kafka.record.default_records as kafka_python

KAFKA_PYTHON = [Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD]  # snappy needs a further package

maybe_bytes = st.none() | st.binary(max_size=300)
some_headers = st.lists(st.tuples(st.text(max_size=20), maybe_bytes), max_size=3).map(tuple)
some_records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**42),
        key=maybe_bytes,
        value=maybe_bytes,
        headers=some_headers,
    ),
    min_size=1,
    max_size=20,
)


def plain(read, base_offset=0):
    """Records as read, with their headers in a tuple, after checking that offsets count up from the base."""
    found = list(read)
    assert [record.offset for record in found] == list(range(base_offset, base_offset + len(found)))
    return [record._replace(offset=0, headers=tuple(record.headers)) for record in found]


def code_of(call, *arguments):
    with pytest.raises(ApiError) as refused:
        call(*arguments)
    return refused.value.code


def code_or_none(call):
    try:
        call()
    except ApiError as refused:
        return refused.code
    return None


@given(some_records, st.sampled_from(list(Compression)), st.integers(0, 2**50))
def test_what_is_built_reads_back(content, compression, base_offset):
    batch = records.build(content, base_offset=base_offset, compression=compression, leader_epoch=4)
    header = records.header(batch)
    records.check_crc(batch, header)
    assert header.length == len(batch)
    assert (header.base_offset, header.leader_epoch, header.count) == (base_offset, 4, len(content))
    assert header.next_offset == base_offset + len(content)
    assert header.max_timestamp == max(record.timestamp for record in content)
    assert plain(records.records(batch), base_offset) == content


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_survives(value):
    raw = record_format.varint(value)
    first = raw[0]
    undone = record_format._long_varint(raw, 1, first)[0] if first & 0x80 else first
    assert (undone >> 1) ^ -(undone & 1) == value


@given(some_records, st.sampled_from(KAFKA_PYTHON))
def test_kafka_python_reads_what_is_built(content, compression):
    batch = kafka_python.DefaultRecordBatch(records.build(content, base_offset=11, compression=compression))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert plain(read, 11) == content


@given(some_records, st.sampled_from([Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]))
def test_aiokafka_reads_what_is_built(content, compression):
    batch = AiokafkaBatch(records.build(content, base_offset=11, compression=compression))
    assert batch.validate_crc()
    read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    assert plain(read, 11) == content


@pytest.mark.parametrize("compression", KAFKA_PYTHON)
@settings(max_examples=20, deadline=None)
@given(content=some_records)
def test_what_kafka_python_builds_is_read(compression, content):
    builder = kafka_python.DefaultRecordBatchBuilder(2, int(compression), 0, -1, -1, -1, 10**9)
    for offset, record in enumerate(content):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    records.check_crc(batch, records.header(batch))
    assert plain(records.records(batch)) == content


@settings(max_examples=30, deadline=None)
@given(some_records)
def test_an_uncompressed_batch_is_byte_for_byte_what_aiokafka_builds(content):
    builder = AiokafkaBuilder(2, 0, 1, 77, 3, 12, 10**9)
    for offset, record in enumerate(content):
        builder.append(offset, record.timestamp, record.key, record.value, list(record.headers))
    ours = records.build(
        content, attributes=records.TRANSACTIONAL, producer_id=77, producer_epoch=3, base_sequence=12, leader_epoch=0
    )
    theirs = bytearray(builder.build())
    records.stamp(theirs, 0, 0, 0)
    assert ours == theirs


def test_stamping_keeps_the_checksum():
    buffer = bytearray(b"????") + records.build([Record(timestamp=5, value=b"v")] * 3)
    records.stamp(buffer, 4, 2**40, 9)
    header = records.header(buffer, 4)
    records.check_crc(buffer, header)
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (2**40, 2**40 + 2, 9)


def test_log_append_time_covers_the_records_own_times():
    buffer = bytearray(records.build([Record(timestamp=time, value=b"v") for time in (5, 9, 7)]))
    records.stamp_log_append_time(buffer, records.header(buffer), 1234)
    header = records.header(buffer)
    records.check_crc(buffer, header)
    assert header.timestamp_type == "LogAppendTime"
    assert [record.timestamp for record in records.records(buffer)] == [1234, 1234, 1234]


def test_batches_leaves_out_an_incomplete_end():
    one = records.build([Record(value=b"1")])
    two = records.build([Record(value=b"2")] * 2, base_offset=1)
    for cut in range(len(two)):
        assert [batch.base_offset for batch in records.batches(one + two[:cut])] == [0]
    assert [(batch.position, batch.count) for batch in records.batches(one + two)] == [(0, 1), (len(one), 2)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused(magic):
    old = bytearray(records.build([Record(value=b"old")]))
    old[records.MAGIC_POSITION] = magic
    for buffer in (old, old[:30]):
        assert code_of(records.header, buffer) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert code_of(list, records.batches(buffer)) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert code_of(records.only_batch, buffer) == ErrorCode.INVALID_RECORD


def test_a_produce_request_has_exactly_one_batch():
    batch = records.build([Record(value=b"v")])
    assert records.only_batch(memoryview(batch)).count == 1
    for wrong in (b"", batch + batch, batch[:-1], batch + b"x"):
        assert code_of(records.only_batch, wrong) == ErrorCode.INVALID_RECORD
    unknown = bytearray(batch)
    unknown[records.MAGIC_POSITION] = 3
    assert code_of(records.only_batch, unknown) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_an_impossible_length_is_corrupt(length):
    batch = bytearray(records.build([Record(value=b"v")]))
    batch[records.LENGTH_POSITION : records.LENGTH_POSITION + 4] = length.to_bytes(4, signed=True)
    assert code_of(records.header, batch) == ErrorCode.CORRUPT_MESSAGE


def test_any_flipped_bit_behind_the_checksum_is_noticed():
    batch = records.build([Record(timestamp=1, key=b"k", value=b"v")])
    for position in range(records.ATTRIBUTES_POSITION, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        assert code_of(records.check_crc, damaged, records.header(damaged)) == ErrorCode.CORRUPT_MESSAGE


@given(st.data())
def test_bad_records_under_a_good_checksum_are_reported_and_nothing_worse(data):
    batch = bytearray(records.build([Record(timestamp=1, key=b"key", value=b"value", headers=(("h", b"x"),))] * 3))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(records.HEADER_BYTES - 4, len(batch) - 1))] = data.draw(st.integers(0, 255))
    assert code_or_none(lambda: list(records.records(batch))) in (None, ErrorCode.INVALID_RECORD)


@given(st.binary(max_size=60), st.integers(0, 2**31 - 1))
def test_garbage_is_no_record_and_nothing_worse(payload, count):
    assert code_or_none(lambda: list(record_format.decode(payload, count, 0, 0, None))) in (
        None,
        ErrorCode.INVALID_RECORD,
    )


def test_sequences_wrap_to_zero():
    batch = records.build([Record(value=b"v")] * 3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    assert records.header(batch).last_sequence == 0
    assert records.header(records.build([Record(value=b"v")])).last_sequence == records.NO_SEQUENCE


def test_compaction_can_leave_gaps():
    batch = records.build([Record(offset=10), Record(offset=14)], base_offset=10, keep_offsets=True)
    assert [record.offset for record in records.records(batch)] == [10, 14]
    assert records.header(batch).next_offset == 15


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction_reads_back(committed):
    batch = records.build_marker(Marker(committed, 7), timestamp=5, producer_id=8, producer_epoch=1)
    header = records.header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, -1)
    (record,) = records.records(batch)
    assert records.read_marker(record) == Marker(committed, 7)
    (theirs,) = kafka_python.DefaultRecordBatch(batch)
    assert (theirs.commit, theirs.abort) == (committed, not committed)


def test_a_control_record_of_another_kind_is_no_marker():
    assert records.read_marker(Record(key=b"\0\0\0\2", value=b"")) is None
    assert code_of(records.read_marker, Record(key=b"\0")) == ErrorCode.INVALID_RECORD
    assert code_of(records.read_marker, Record(key=b"\0\0\0\1", value=b"\0")) == ErrorCode.INVALID_RECORD
