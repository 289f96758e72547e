"""What a leader finds in a batch that it must look into, and how little it may cost."""

import struct
import tracemalloc

import pytest

from tests.compatibility.differential.batches import fields_of, seal, with_field
from tests.log.support import options
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.inspection import INLINE_BYTES, LargeBatch, inspect, is_inspected, most_inflated, small_payload
from tidelog.log.rules import AppendRules
from tidelog.wire import compression
from tidelog.wire.records import HEADER_BYTES, LOG_APPEND_TIME, TRANSACTIONAL, Record, build, header, records

WALL = 1_700_000_000_000
KINDS = (1, 2, 3, 4)
COMPACTED = AppendRules.of(options(cleanup_policy="compact"))
GZIPPED = AppendRules.of(options(compression_type="gzip"))
PLAIN = AppendRules.of(options())


def batch(*values, kind=0, **more):
    content = [Record(timestamp=WALL + number, key=b"k%d" % number, value=value) for number, value in enumerate(values)]
    return build(content, compression=kind, **more)


def with_payload(payload, kind, count=1):
    """A batch of this compressed content, whose header says that it has so many records."""
    data = bytearray(batch(b"v")[:HEADER_BYTES] + payload)
    struct.pack_into(">i", data, 8, len(data) - 12)
    for name, value in (("last_offset_delta", count - 1), ("count", count), ("attributes", kind)):
        data = bytearray(with_field(bytes(data), name, value))
    return seal(data)


def code(error):
    return error.value.code


def test_what_is_small_is_looked_at_at_once_and_what_is_large_is_not():
    small, large = batch(b"v" * 1000), batch(b"v" * INLINE_BYTES)
    assert b"v" * 1000 in small_payload(small, header(small))
    with pytest.raises(LargeBatch):
        small_payload(large, header(large))


@pytest.mark.parametrize("kind", KINDS)
def test_a_few_bytes_that_inflate_to_many_are_not_looked_at_at_once(kind):
    bomb = batch(bytes(10 * INLINE_BYTES), kind=kind)
    tracemalloc.start()
    with pytest.raises(LargeBatch):
        small_payload(bomb, header(bomb))
    assert tracemalloc.get_traced_memory()[1] < 20 * INLINE_BYTES
    tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_inflates_beyond_a_multiple_of_the_largest_batch_is_refused(kind):
    rules = COMPACTED._replace(max_message_bytes=100_000)
    allowed, bomb = batch(bytes(1_500_000), kind=kind), batch(bytes(1_700_000), kind=kind)
    assert inspect(allowed, header(allowed), rules) is None
    with pytest.raises(ApiError) as error:
        inspect(bomb, header(bomb), rules)
    assert code(error) == ErrorCode.MESSAGE_TOO_LARGE


def test_the_multiple_leaves_room_for_small_batches_and_ends_at_a_hundred_mebibytes():
    assert most_inflated(PLAIN._replace(max_message_bytes=10)) == INLINE_BYTES
    assert most_inflated(PLAIN) == 16 * 1_048_588
    assert most_inflated(PLAIN._replace(max_message_bytes=100_000_000)) == compression.MAX_OUTPUT_BYTES


def test_a_number_of_records_that_cannot_be_is_refused_before_anything_is_inflated(monkeypatch):
    lying = with_payload(b"not even zstd", 4, count=2**31 - 1)
    with pytest.raises(ApiError) as error:
        inspect(lying, header(lying), COMPACTED)
    assert code(error) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_not_what_the_header_says_are_refused(kind):
    garbage = with_payload(b"garbage" * 5, kind)
    with pytest.raises(ApiError) as error:
        inspect(garbage, header(garbage), GZIPPED if kind != 1 else COMPACTED)
    assert code(error) == ErrorCode.CORRUPT_MESSAGE


def test_records_without_a_key_are_named_but_not_by_the_million():
    data = build([Record(timestamp=WALL, value=b"") for _ in range(5000)])
    with pytest.raises(ApiError) as error:
        inspect(data, header(data), COMPACTED)
    assert code(error) == ErrorCode.INVALID_RECORD
    assert list(error.value.records) == list(range(1000))


@pytest.mark.parametrize("kind", [0, 2, 3, 4])
def test_a_topic_with_its_own_compression_keeps_the_same_records(kind):
    given = batch(
        b"one", b"two", b"", kind=kind, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=1, base_sequence=3
    )
    kept = inspect(given, header(given), GZIPPED)
    assert kept is not None
    assert list(records(kept)) == list(records(given))
    was, now = header(given), header(kept)
    assert (now.compression, now.attributes & TRANSACTIONAL) == (1, TRANSACTIONAL)
    assert now[6:13] == was[6:13]


def test_wrongly_numbered_records_are_numbered_again():
    given = fields_of([b"a", b"b", b"c"], [0, 2, 1])
    kept = inspect(given, header(given), GZIPPED)
    assert kept is not None
    assert [(record.offset, record.value) for record in records(kept)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_log_append_time_of_a_client_becomes_the_records_time():
    given = batch(b"one", b"two", attributes=LOG_APPEND_TIME)
    kept = inspect(given, header(given), GZIPPED)
    assert kept is not None
    assert [record.timestamp for record in records(with_field(kept, "attributes", 1))] == [WALL + 1] * 2


def test_only_topics_that_must_be_looked_into_are():
    plain, zipped = batch(b"v"), batch(b"v", kind=1)
    assert [is_inspected(header(each), PLAIN) for each in (plain, zipped)] == [False, False]
    assert [is_inspected(header(each), GZIPPED) for each in (plain, zipped)] == [True, False]
    assert [is_inspected(header(each), COMPACTED) for each in (plain, zipped)] == [True, True]
