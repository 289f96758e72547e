"""Idempotence (KIP-98): what of a producer's batches is new, a retry, or refused; and snapshots of it."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.support import NOW, open_log, sim_disk
from tidelog.api.records.transactional import transaction_version
from tidelog.errors import ApiError, CorruptLog, ErrorCode
from tidelog.log import snapshots
from tidelog.log.producers import Producers
from tidelog.log.snapshots import Snapshots
from tidelog.wire.records import CONTROL, MAX_SEQUENCE, TRANSACTIONAL, Marker, Record, build, build_marker, header

ID = 7
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def batch(sequence, count=1, *, epoch=0, attributes=0, timestamp=5, producer_id=ID):
    records = [Record(0, timestamp, None, b"v")] * count
    return header(
        build(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes)
    )


def appended(producers, found, *, marker=None):
    assert producers.check(found) is None
    return producers.apply(found, producers.end_offset, marker)


def refused(producers, found, version=0):
    with pytest.raises(ApiError) as error:
        producers.check(found, transaction_version=version)
    return error.value.code


def test_a_new_producer_may_begin_anywhere():
    producers = Producers()
    assert producers.check(batch(17)) is None


@pytest.mark.parametrize(("version", "attributes"), [(0, TRANSACTIONAL), (2, 0)])
def test_one_without_an_epoch_for_each_transaction_as_well(version, attributes):
    assert Producers().check(batch(17, attributes=attributes), transaction_version=version) is None


def test_a_transaction_with_an_epoch_of_its_own_begins_at_zero():
    """Or the second batch is taken first, and the first, when it is tried again, never."""
    producers = Producers()
    for sequence in (17, 1, MAX_SEQUENCE):
        assert refused(producers, batch(sequence, attributes=TRANSACTIONAL), 2) == OUT_OF_ORDER
    found = batch(0, attributes=TRANSACTIONAL)
    assert producers.check(found, transaction_version=2) is None
    producers.apply(found, 0)
    assert producers.check(batch(1, attributes=TRANSACTIONAL), transaction_version=2) is None
    coordinators = batch(-1, attributes=TRANSACTIONAL, producer_id=8)
    assert producers.check(coordinators, from_client=False, transaction_version=2) is None


def test_the_version_of_the_request_says_which_it_is():
    log = open_log(sim_disk())
    data = build(
        [Record(0, 5, None, b"v")], attributes=TRANSACTIONAL, producer_id=ID, producer_epoch=0, base_sequence=1
    )
    with pytest.raises(ApiError) as error:
        log.append_as_leader(data, 0, NOW, transaction_version=transaction_version(12))
    assert error.value.code == OUT_OF_ORDER
    log.append_as_leader(data, 0, NOW, transaction_version=transaction_version(11))
    assert log.log_end_offset == 1


def test_the_next_sequence_follows_and_a_gap_is_out_of_order():
    producers = Producers()
    appended(producers, batch(0, 3))
    appended(producers, batch(3, 2))
    assert refused(producers, batch(6)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(producers, batch(4, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.get(ID).last_sequence == 4
    assert producers.get(ID).last_offset == 4


def test_the_last_five_batches_are_recognised_again():
    producers = Producers()
    for sequence in range(0, 14, 2):
        appended(producers, batch(sequence, 2))
    for sequence in range(4, 14, 2):
        duplicate = producers.check(batch(sequence, 2))
        assert (duplicate.first_offset, duplicate.last_offset) == (sequence, sequence + 1)
    assert refused(producers, batch(2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one():
    producers = Producers()
    appended(producers, batch(0, 3, epoch=1))
    assert refused(producers, batch(3, epoch=0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(producers, batch(3, epoch=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    appended(producers, batch(0, epoch=2))
    assert producers.check(batch(0, epoch=2)).first_offset == 3
    assert refused(producers, batch(0, 3, epoch=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_wrap():
    producers = Producers()
    appended(producers, batch(MAX_SEQUENCE - 1, 3))
    assert producers.get(ID).last_sequence == 0
    assert producers.check(batch(MAX_SEQUENCE - 1, 3)) is not None
    appended(producers, batch(1))
    assert refused(producers, batch(0, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_coordinator_numbers_nothing():
    producers = Producers()
    producers.apply(batch(-1), 0)
    assert producers.check(batch(-1), from_client=False) is None
    producers.apply(batch(-1, epoch=2), 1)
    with pytest.raises(ApiError):
        producers.check(batch(-1, epoch=1), from_client=False)


def test_a_transaction_is_open_until_its_marker():
    producers = Producers()
    appended(producers, batch(0, 2, attributes=TRANSACTIONAL))
    appended(producers, batch(2, attributes=TRANSACTIONAL))
    assert producers.first_open_offset == 0
    assert refused(producers, batch(3)) == ErrorCode.INVALID_TXN_STATE
    marker = Marker(committed=False, coordinator_epoch=4)
    control = header(build_marker(marker, timestamp=9, producer_id=ID, producer_epoch=0))
    ended = producers.apply(control, 3, marker)
    assert (ended.first_offset, ended.last_offset, ended.committed) == (0, 3, False)
    assert producers.first_open_offset is None
    assert producers.get(ID).coordinator_epoch == 4
    assert producers.apply(control, 4, marker) is None
    appended(producers, batch(3))


def test_a_control_batch_without_a_marker_changes_nothing():
    producers = Producers()
    assert producers.apply(batch(0, attributes=CONTROL | TRANSACTIONAL), 0, None) is None
    assert len(producers) == 0
    assert producers.end_offset == 1


def test_idle_producers_expire_but_not_those_in_a_transaction():
    producers = Producers()
    appended(producers, batch(0, timestamp=100))
    appended(producers, batch(0, timestamp=100, producer_id=8, attributes=TRANSACTIONAL))
    assert producers.expire(149, 50) == 0
    assert producers.expire(150, 50) == 1
    assert producers.get(ID) is None
    assert producers.check(batch(99)) is None


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3), st.integers(0, 2)), max_size=30))
def test_answers_equal_those_of_a_list_of_all_batches(attempts):
    """The naive twin remembers every batch of the epoch and looks at the last five."""
    producers, epoch, held, end = Producers(), -1, deque(maxlen=5), 0
    for sequence, count, asked in attempts:
        found = batch(sequence, count, epoch=asked)
        span = (sequence, sequence + count - 1)
        if asked < epoch:
            expected = ErrorCode.INVALID_PRODUCER_EPOCH
        elif asked == epoch and span in [h[:2] for h in held] and sequence != held[-1][1] + 1:
            expected = "duplicate"
        elif epoch == -1 or (asked > epoch and sequence == 0) or (asked == epoch and sequence == held[-1][1] + 1):
            expected = "append"
        else:
            expected = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if isinstance(expected, ErrorCode):
            assert refused(producers, found) == expected
            continue
        duplicate = producers.check(found)
        if duplicate is not None:
            assert expected == "duplicate"
            assert (*span, duplicate.first_offset) in held
            continue
        assert expected == "append"
        producers.apply(found, end)
        if asked != epoch:
            epoch = asked
            held.clear()
        held.append((*span, end))
        end += count


def test_snapshots_keep_the_last_batch_of_each_producer():
    producers = Producers()
    appended(producers, batch(0, 3))
    appended(producers, batch(3, 2))
    appended(producers, batch(5, 4, producer_id=9, attributes=TRANSACTIONAL, timestamp=77))
    restored = Producers(snapshots.decode(snapshots.encode(producers.values()), "f"), 9)
    assert restored.check(batch(3, 2)).first_offset == 3
    assert refused(restored, batch(0, 3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert restored.first_open_offset == 5
    assert restored.get(9).timestamp == 77
    assert snapshots.encode(restored.values()) == snapshots.encode(producers.values())


def test_snapshot_bytes_are_kafkas():
    producers = Producers()
    producers.apply(batch(4, 2, epoch=1, timestamp=6), 10)
    content = snapshots.encode(producers.values())
    assert content[:2].hex() == "0001"
    assert content[6:].hex() == (
        "00000001" + "0000000000000007" + "0001" + "00000005" + "000000000000000b" + "00000001" + "0000000000000006"
        + "ffffffff" + "ffffffffffffffff"
    )  # fmt: skip


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_damaged_snapshot_is_refused(position, flip):
    producers = Producers()
    producers.apply(batch(4, 2), 10)
    content = bytearray(snapshots.encode(producers.values()))
    content[position % len(content)] ^= flip
    with pytest.raises(CorruptLog):
        snapshots.decode(bytes(content), "f")
    with pytest.raises(CorruptLog):
        snapshots.decode(bytes(content[:9]), "f")


def test_the_newest_good_snapshot_is_taken_and_bad_ones_go():
    disk = sim_disk()
    disk.make_folder("/data/t-0")
    store, producers = Snapshots(disk, "/data/t-0"), Producers()
    for sequence in range(3):
        appended(producers, batch(sequence))
        store.write(producers)
    disk.open(store.path(3)).write(8, b"garbage")
    loaded = store.load(at_most=3, otherwise=0)
    assert loaded.end_offset == 2
    assert loaded.get(ID).last_sequence == 1
    assert store.offsets == [1, 2]
    assert not disk.exists(store.path(3))
    assert store.load(at_most=0, otherwise=5).end_offset == 5
    store.write(producers)
    store.remove_strays({0, 2})
    assert store.offsets == [2, 3]
    store.remove_outside(2, 3)
    assert store.offsets == [3]
