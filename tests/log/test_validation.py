"""A leader's rules for a client's batch: Kafka's code for each that is broken, and nothing changed by a refusal."""

import struct

import pytest
from crc32c import crc32c

from tests.log.support import NOW, WALL, batch, open_log, options, read_batches, sim_disk
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.rules import AppendRules
from tidelog.wire.compression import Compression
from tidelog.wire.records import (
    ATTRIBUTES_POSITION,
    CONTROL,
    COUNT_POSITION,
    CRC_POSITION,
    LAST_OFFSET_DELTA_POSITION,
    MAGIC_POSITION,
    check_crc,
    header,
    records,
)


def patched(data, position, layout, value):
    """The batch with one field changed and a checksum that holds."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    struct.pack_into(">I", changed, CRC_POSITION, crc32c(bytes(changed[ATTRIBUTES_POSITION:])))
    return changed


def flipped(data):
    changed = bytearray(data)
    changed[-1] ^= 1
    return changed


HOUR = 3_600_000

REFUSALS = {
    "nothing": (b"", {}, ErrorCode.INVALID_RECORD),
    "cut off": (batch()[:-1], {}, ErrorCode.INVALID_RECORD),
    "two batches": (batch() + batch(), {}, ErrorCode.INVALID_RECORD),
    "old format": (patched(batch(), MAGIC_POSITION, ">b", 1), {}, ErrorCode.INVALID_RECORD),
    "no format": (patched(batch(), MAGIC_POSITION, ">b", 9), {}, ErrorCode.CORRUPT_MESSAGE),
    "base offset": (batch(base_offset=3), {}, ErrorCode.INVALID_RECORD),
    "bad checksum": (flipped(batch()), {}, ErrorCode.CORRUPT_MESSAGE),
    "too large": (batch(b"x" * 100), {"max_message_bytes": 100}, ErrorCode.MESSAGE_TOO_LARGE),
    "larger than a segment": (batch(b"x" * 100), {"internal_segment_bytes": 100}, ErrorCode.RECORD_LIST_TOO_LARGE),
    "count": (patched(batch(), COUNT_POSITION, ">i", 2), {}, ErrorCode.INVALID_RECORD),
    "no records": (patched(batch(), COUNT_POSITION, ">i", 0), {}, ErrorCode.INVALID_RECORD),
    "last offset": (patched(batch(), LAST_OFFSET_DELTA_POSITION, ">i", -1), {}, ErrorCode.INVALID_RECORD),
    "control": (batch(attributes=CONTROL), {}, ErrorCode.INVALID_RECORD),
    "codec": (patched(batch(), ATTRIBUTES_POSITION, ">h", 5), {}, ErrorCode.INVALID_RECORD),
    "no sequence": (batch(producer_id=1, producer_epoch=0), {}, ErrorCode.INVALID_RECORD),
    "no key": (batch(b"a", b"b", key=None), {"cleanup_policy": "compact"}, ErrorCode.INVALID_RECORD),
    "from the future": (batch(timestamp=WALL + HOUR + 1), {}, ErrorCode.INVALID_TIMESTAMP),
    "too old": (batch(timestamp=WALL - 11), {"message_timestamp_before_max_ms": 10}, ErrorCode.INVALID_TIMESTAMP),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_batch_changes_nothing(name):
    data, overrides, code = REFUSALS[name]
    log = open_log(sim_disk(), options(**overrides))
    with pytest.raises(ApiError) as error:
        log.append_as_leader(bytearray(data), 0, NOW)
    assert error.value.code == code
    assert log.log_end_offset == log.size == len(log.epochs) == len(log.producers) == 0
    log.check_invariants()


@pytest.mark.parametrize(
    "data",
    [
        batch(timestamp=WALL + HOUR),
        batch(timestamp=-1),
        batch(key=None),
        batch(b"", None),
        batch(compression=Compression.LZ4),
    ],
)
def test_what_is_good_is_appended_as_it_is(data):
    log = open_log(sim_disk())
    log.append_as_leader(data, 0, NOW)
    (stored,) = read_batches(log)
    assert list(records(stored)) == list(records(data))


def test_a_coordinator_may_write_what_a_client_may_not():
    log = open_log(sim_disk(), options(cleanup_policy="compact"))
    log.append_as_leader(batch(attributes=CONTROL, producer_id=4, producer_epoch=0), 0, NOW, from_client=False)
    assert log.log_end_offset == 1
    with pytest.raises(ApiError) as error:
        log.append_as_leader(batch(b"x" * 2_000_000), 0, NOW, from_client=False)
    assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_stamping_is_in_place_where_the_buffer_allows():
    log = open_log(sim_disk())
    mine = bytearray(batch())
    log.append_as_leader(memoryview(mine), 3, NOW)
    assert header(mine).leader_epoch == 3
    fixed = batch()
    result = log.append_as_leader(memoryview(fixed), 3, NOW)
    assert fixed == batch()
    assert (result.first_offset, result.last_offset, result.log_append_time, result.bytes) == (1, 1, -1, len(fixed))
    assert [header(data).base_offset for data in read_batches(log)] == [0, 1]


def test_log_append_time_overrides_the_producers_clock():
    log = open_log(sim_disk(), options(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(batch(b"a", b"b", timestamp=5), 0, NOW)
    assert result.log_append_time == WALL
    (stored,) = read_batches(log)
    check_crc(stored, header(stored))
    assert [record.timestamp for record in records(stored)] == [WALL, WALL]
    assert log.max_timestamp_offset() == (WALL, 1, 0)


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_its_own_compression_recompresses(name):
    log = open_log(sim_disk(), options(compression_type=name))
    given = batch(
        b"a" * 500, b"b" * 500, compression=Compression.GZIP, producer_id=6, producer_epoch=1, base_sequence=0
    )
    log.append_as_leader(given, 2, NOW)
    (stored,) = read_batches(log)
    found = header(stored)
    check_crc(stored, found)
    assert found.compression == Compression["NONE" if name == "uncompressed" else name.upper()]
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.leader_epoch) == (6, 1, 0, 2)
    assert [(r.key, r.value, r.timestamp) for r in records(stored)] == [
        (r.key, r.value, r.timestamp) for r in records(given)
    ]
    assert log.append_as_leader(given, 2, NOW).duplicate


def test_recompression_may_not_exceed_the_limit():
    log = open_log(sim_disk(), options(compression_type="uncompressed", max_message_bytes=400))
    with pytest.raises(ApiError) as error:
        log.append_as_leader(batch(b"a" * 1000, compression=Compression.GZIP), 0, NOW)
    assert error.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert log.log_end_offset == 0


@pytest.mark.parametrize(
    ("codec", "option", "level", "expected"),
    [
        ("gzip", "gzip", 3, 3),
        ("gzip", "gzip", -1, None),
        ("lz4", "lz4", 5, 5),
        ("zstd", "zstd", 7, 7),
        ("gzip", "zstd", 7, None),
    ],
)
def test_the_level_is_that_of_the_topics_codec(codec, option, level, expected):
    config = options(compression_type=codec, **{f"compression_{option}_level": level})
    assert AppendRules.of(config).level == expected
