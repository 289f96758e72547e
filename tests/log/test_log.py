"""What a log answers: reads, rolls, duplicates, times, truncation, durability."""

from zlib import crc32

import pytest

from tests.log.support import NOW, WALL, after, batch, end_of, flush, open_log, options, read_batches, sim_disk
from tidelog.errors import ApiError, DiskFull, ErrorCode
from tidelog.log import names
from tidelog.log.segment import Warm
from tidelog.wire.records import header

TINY = options(internal_segment_bytes=300, index_interval_bytes=0)


def filled(count=10, config=None, disk=None, **fields):
    log = open_log(disk or sim_disk(), config)
    for number in range(count):
        log.append_as_leader(batch(b"v%d" % number, **fields), 0, NOW)
    return log


def offsets(log, *arguments, **keywords):
    piece = log.read(*arguments, **keywords)
    if piece is None:
        return None
    data = piece.file.read(piece.position, piece.length)
    return [found for found, whole in walk(data) if whole]


def walk(data):
    position = 0
    while position + 61 <= len(data):
        found = header(data, position)
        position += found.length
        yield found.base_offset, position <= len(data)


# Reading.


def test_a_read_outside_the_log_is_out_of_range():
    log = filled(3)
    log.advance_start(1)
    for offset in (-1, 0, 4, 2**63 - 1):
        with pytest.raises(ApiError) as error:
            log.read(offset, 100, 3)
        assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, 100, 3) is None


def test_a_read_ends_before_the_limit():
    log = filled(5)
    assert offsets(log, 1, 10_000, 4) == [1, 2, 3]
    assert offsets(log, 1, 10_000, 99) == [1, 2, 3, 4]
    assert log.read(2, 10_000, 2) is None
    assert log.read(2, 10_000, 1, at_least_one=True) is None


def test_a_batch_that_reaches_the_limit_is_not_served():
    log = filled(0)
    log.append_as_leader(batch(b"a", b"b", b"c"), 0, NOW)
    assert log.read(0, 10_000, 2) is None
    assert offsets(log, 2, 10_000, 3) == [0]


def test_the_first_batch_is_whole_or_there_is_none():
    log = filled(3)
    assert log.read(0, 10, 3) is None
    assert log.read(0, 0, 3) is None
    assert offsets(log, 0, 10, 3, at_least_one=True) == [0]
    size = log.size // 3
    assert offsets(log, 0, size + 5, 3) == [0]
    assert offsets(log, 0, 2 * size, 3) == [0, 1]


@pytest.mark.parametrize("config", [None, TINY])
def test_every_offset_reads_from_its_own_batch(config):
    log = open_log(sim_disk(), config)
    for number in range(12):
        log.append_as_leader(batch(*[b"x"] * (number % 3 + 1)), 0, NOW)
    held = read_batches(log)
    for data in held:
        found = header(data)
        for offset in range(found.base_offset, found.next_offset):
            assert offsets(log, offset, 1, log.log_end_offset, at_least_one=True) == [found.base_offset]


def test_a_read_stays_within_a_segment():
    log = filled(10, TINY)
    assert len(log.segments) > 2
    end = log.segments[1].base_offset
    assert offsets(log, 0, 10_000, 10) == list(range(end))


def test_far_behind_the_tail_positions_come_from_the_index():
    log = filled(2_000)
    assert offsets(log, 3, 1, 2_000, at_least_one=True) == [3]
    assert offsets(log, 3, 100_000, 7) == [3, 4, 5, 6]
    assert offsets(log, 1_990, 100_000, 1_995) == [1_990, 1_991, 1_992, 1_993, 1_994]


def test_bytes_between_is_exact_near_the_end_and_never_zero_before_it():
    log = filled(1_500)
    size = log.size // 1_500
    lengths = [len(data) for data in read_batches(log, 1_490)]
    assert log.bytes_between(1_490, 1_500) == sum(lengths)
    assert log.bytes_between(1_490, 1_495) == sum(lengths[:5])
    assert log.bytes_between(1_500, 1_500) == 0
    assert log.bytes_between(5, 6) >= 1
    assert abs(log.bytes_between(0, 1_500) - log.size) < 5_000
    assert abs(log.bytes_between(100, 900) - 800 * size) < 12_000
    rolled = filled(10, TINY)
    assert rolled.bytes_between(0, 10) == rolled.size


# Appending as a follower.


def test_a_follower_takes_a_chunk_over_segments_with_one_write_each():
    chunk = b"".join(batch(b"x" * 50, base_offset=offset, leader_epoch=offset // 4) for offset in range(10))
    log = open_log(sim_disk(), TINY)
    result = log.append_as_follower(memoryview(chunk), NOW)
    assert (result.first_offset, result.last_offset, result.batches, result.bytes) == (0, 9, 10, len(chunk))
    assert b"".join(read_batches(log)) == chunk
    assert list(log.epochs) == [(0, 0), (1, 4), (2, 8)]
    assert len(log.segments) > 3
    assert [segment.size <= 300 for segment in log.segments] == [True] * len(log.segments)


def test_a_follower_takes_what_its_own_limits_forbid():
    large = batch(b"x" * 2_000, base_offset=0, leader_epoch=0)
    log = open_log(sim_disk(), options(internal_segment_bytes=300, max_message_bytes=100))
    log.append_as_follower(large, NOW)
    log.append_as_follower(batch(b"y", base_offset=1, leader_epoch=0), NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_an_incomplete_batch_is_nothing():
    log = open_log(sim_disk())
    assert log.append_as_follower(batch(leader_epoch=0)[:-1], NOW) is None
    assert log.append_as_follower(b"", NOW) is None
    assert log.log_end_offset == 0


def test_a_follower_refuses_a_chunk_whole():
    log = filled(3)
    good = batch(b"g", base_offset=3, leader_epoch=0)
    bad = bytearray(batch(b"b", base_offset=4, leader_epoch=0))
    bad[-1] ^= 1
    for chunk in (good + bytes(bad), batch(base_offset=2), good + good):
        with pytest.raises(ApiError) as error:
            log.append_as_follower(chunk, NOW)
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == end_of(read_batches(log)) == 3
    log.check_invariants()


def test_a_compacted_leader_leaves_gaps():
    log = open_log(sim_disk())
    for base in (0, 7, 2**31 + 100):
        log.append_as_follower(batch(base_offset=base, leader_epoch=0), NOW)
    assert [header(data).base_offset for data in read_batches(log)] == [0, 7, 2**31 + 100]
    assert offsets(log, 3, 10_000, log.log_end_offset) == [7]
    assert len(log.segments) == 2
    log.check_invariants()


def test_an_empty_log_may_begin_inside_a_batch():
    log = open_log(sim_disk())
    log.truncate_fully_and_start_at(5)
    log.append_as_follower(batch(*[b"x"] * 4, base_offset=3, leader_epoch=2), NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)
    assert offsets(log, 5, 10_000, 7) == [3]
    log.check_invariants()


def test_a_log_whose_records_are_all_deleted_may_begin_inside_a_batch_too():
    """Simulated seed 8006: the bytes that were still there kept it from ever following a leader with other batches."""
    log = open_log(sim_disk())
    log.append_as_follower(batch(*[b"old"] * 5, base_offset=0, leader_epoch=1), NOW)
    log.advance_start(5)
    log.append_as_follower(batch(*[b"x"] * 4, base_offset=3, leader_epoch=2), NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)
    assert offsets(log, 5, 10_000, 7) == [3]
    log.check_invariants()


def test_a_batch_that_a_full_disk_refuses_leaves_a_log_that_was_to_begin_inside_it_as_it_was():
    """Simulated seed 3000783: the log ended below its own start, and below its high watermark."""
    disk = sim_disk()
    log = open_log(disk)
    log.truncate_fully_and_start_at(5)
    disk.capacity = disk.used() + 20
    data = batch(*[b"x"] * 4, base_offset=3, leader_epoch=2)
    with pytest.raises(DiskFull):
        log.append_as_follower(data, NOW)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    log.check_invariants()
    disk.capacity = None
    log.roll(NOW)
    log.append_as_follower(data, NOW)
    log.append_as_follower(batch(base_offset=7, leader_epoch=2), NOW)
    log.check_invariants()
    log.close(clean=False)
    again = open_log(disk, start=5)
    assert (again.log_start_offset, again.log_end_offset, offsets(again, 5, 10_000, 8)) == (5, 8, [3, 7])


# Rolling.


def test_a_segment_rolls_by_size_with_its_indexes_and_a_snapshot():
    disk = sim_disk()
    log = filled(10, TINY, disk)
    bases = [segment.base_offset for segment in log.segments]
    for base in bases[:-1]:
        for kind in (names.LOG, names.INDEX, names.TIME_INDEX):
            assert disk.exists(f"{log.folder}/{names.name(base, kind)}")
    assert log.snapshots.offsets == bases[1:]


def test_a_segment_rolls_by_the_time_of_its_records():
    log = open_log(sim_disk(), options(segment_ms=1_000))
    for timestamp in (WALL, WALL + 1_000, WALL + 1_001):
        log.append_as_leader(batch(timestamp=timestamp), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.roll(after(2_002))
    log.roll(after(2_002))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 3]


def test_a_roll_comes_earlier_by_a_jitter_that_only_the_partition_decides():
    """So that the partitions of a topic do not all roll at once, and a replica rolls where it did before a restart."""
    sooner = crc32(b"t-0") % 400
    assert sooner
    log = open_log(sim_disk(), options(segment_ms=1_000, segment_jitter_ms=400))
    for timestamp in (WALL, WALL + 1_000 - sooner, WALL + 1_001 - sooner):
        log.append_as_leader(batch(timestamp=timestamp), 0, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_records_without_time_roll_by_the_clock():
    log = open_log(sim_disk(), options(segment_ms=1_000))
    log.append_as_leader(batch(timestamp=-1), 0, NOW)
    log.append_as_leader(batch(timestamp=-1), 0, after(1_000))
    log.append_as_leader(batch(timestamp=-1), 0, after(1_001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_full_index_rolls():
    log = filled(20, options(index_interval_bytes=0, segment_index_bytes=64))
    assert [segment.base_offset for segment in log.segments] == [0, 9, 18]
    assert all(len(segment.offsets.content) <= 64 for segment in log.segments)


def test_the_configuration_may_change_while_it_runs():
    log = filled(3)
    log.config = options(internal_segment_bytes=log.size)
    log.append_as_leader(batch(), 0, NOW)
    assert len(log.segments) == 2


def test_a_new_index_interval_holds_for_what_is_appended_from_then_on():
    log = filled(3)
    assert not log.segments.active.offsets.content
    log.config = options(index_interval_bytes=0)
    for _ in range(2):  # in the active segment, and in the next one
        for _ in range(2):
            log.append_as_leader(batch(), 0, NOW)
        assert log.segments.active.offsets.content
        log.roll(NOW)


# Idempotence and times.


def test_a_retry_is_answered_as_the_first_time():
    log = open_log(sim_disk())
    mine = {"producer_id": 9, "producer_epoch": 0}
    first = log.append_as_leader(batch(b"a", b"b", base_sequence=0, **mine), 0, NOW)
    log.append_as_leader(batch(b"other"), 0, NOW)
    size = log.size
    again = log.append_as_leader(batch(b"a", b"b", base_sequence=0, **mine), 0, NOW)
    assert again.duplicate
    assert again[:2] == first[:2] == (0, 1)
    assert log.size == size
    with pytest.raises(ApiError) as error:
        log.append_as_leader(batch(b"c", base_sequence=5, **mine), 0, NOW)
    assert error.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("config", [None, TINY])
def test_offsets_by_time_equal_a_search_of_all_records(config):
    log = open_log(sim_disk(), config)
    times = [5, 3, 9, 9, 2, 14, 11, 20, 1, 16]
    for number, time in enumerate(times):
        log.assign_epoch(number // 4, number)
        log.append_as_leader(batch(timestamp=WALL + time), number // 4, NOW)
    log.advance_start(1)
    for wanted in range(22):
        naive = next(((WALL + t, o, o // 4) for o, t in enumerate(times) if o >= 1 and t >= wanted), None)
        assert log.offset_for_timestamp(WALL + wanted, 10) == naive
    assert log.offset_for_timestamp(WALL + 15, 7) is None
    assert log.max_timestamp_offset() == (WALL + 20, 7, 1)
    assert open_log(sim_disk()).max_timestamp_offset() is None


# Truncating and deleting.


def test_truncation_drops_the_batch_that_holds_the_offset():
    log = filled(3)
    log.append_as_leader(batch(b"a", b"b", b"c"), 1, NOW)
    assert not log.truncate_to(6)
    assert log.truncate_to(4)
    assert log.log_end_offset == 3
    assert list(log.epochs) == [(0, 0)]
    assert log.truncate_to(0)
    assert (log.log_end_offset, log.size, len(log.epochs)) == (0, 0, 0)


def test_a_truncation_below_the_first_segment_starts_again_there():
    log = open_log(sim_disk())
    log.truncate_fully_and_start_at(50)
    log.append_as_leader(batch(), 0, NOW)
    assert log.truncate_to(20)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (20, 20, 0)
    log.check_invariants()


def test_an_epoch_that_wrote_nothing_goes_with_a_truncation_to_the_end():
    log = filled(2)
    log.assign_epoch(7, 2)
    assert not log.truncate_to(2)
    assert log.epochs.latest == 0


def test_producers_are_truncated_with_the_log():
    log = open_log(sim_disk(), TINY)
    mine = {"producer_id": 9, "producer_epoch": 0}
    for sequence in range(8):
        log.append_as_leader(batch(base_sequence=sequence, **mine), 0, NOW)
    log.truncate_to(3)
    assert log.producers.get(9).last_sequence == 2
    log.append_as_leader(batch(base_sequence=3, **mine), 0, NOW)


def test_producers_whose_records_were_deleted_below_a_truncation_are_kept():
    """Their retries would be taken again: seed 211231."""
    log = open_log(sim_disk())
    mine = {"producer_id": 9, "producer_epoch": 0}
    for sequence in range(5):
        log.append_as_leader(batch(base_sequence=sequence, **mine), 0, NOW)
    log.advance_start(3)
    log.truncate_to(3)
    assert log.producers.get(9).last_sequence == 2


def test_deleting_records_moves_the_start_only():
    disk = sim_disk()
    log = filled(5, TINY, disk)
    assert log.advance_start(4)
    assert not log.advance_start(2)
    assert log.log_start_offset == 4
    assert list(log.epochs) == [(0, 4)]
    assert disk.read(f"{log.folder}/leader-epoch-checkpoint") == b"0\n1\n0 4\n"
    with pytest.raises(ApiError) as error:
        log.advance_start(6)
    assert error.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


# Retention.


def kept(log, now=NOW, high_watermark=None):
    log.delete_old_segments(now, log.log_end_offset if high_watermark is None else high_watermark)
    return [segment.base_offset for segment in log.segments]


def test_retention_by_age_goes_by_the_newest_record():
    log = open_log(sim_disk(), options(retention_ms=1_000))
    for number in range(4):
        log.append_as_leader(batch(timestamp=WALL + 500 * number), 0, NOW)
        log.roll(NOW)
    assert kept(log, after(1_000)) == [0, 1, 2, 3, 4]
    assert kept(log, after(1_001)) == [1, 2, 3, 4]
    assert (log.log_start_offset, list(log.epochs)) == (1, [(0, 1)])
    assert kept(log, after(1_700)) == [2, 3, 4]
    assert log.snapshots.offsets[0] == 2


def test_retention_rolls_an_active_segment_that_is_old():
    disk = sim_disk()
    log = filled(3, options(retention_ms=1_000), disk)
    doomed = log.delete_old_segments(after(1_001), 3)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (3, 3, 0)
    assert log.delete_old_segments(after(9_000), 3) == []
    assert doomed
    assert all(path.endswith(names.DELETED) and disk.exists(path) for path in doomed)


def test_retention_keeps_an_old_active_segment_while_the_disk_has_no_room_for_the_next():
    disk = sim_disk()
    log = filled(3, options(retention_ms=1_000), disk)
    disk.capacity = disk.used()
    assert log.delete_old_segments(after(1_001), 3) == []
    assert offsets(log, 0, 10_000, 3) == [0, 1, 2]
    disk.capacity = None
    assert log.delete_old_segments(after(1_001), 3)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_retention_by_size_keeps_at_least_that_much():
    log = filled(10, TINY)
    size = log.size
    log.config = options(internal_segment_bytes=300, retention_bytes=size - log.segments[0].size + 1)
    assert kept(log)[0] == 0
    log.config = options(internal_segment_bytes=300, retention_bytes=size - log.segments[0].size)
    assert kept(log)[0] == log.segments[0].base_offset > 0


def test_nothing_above_the_high_watermark_is_deleted():
    log = filled(10, options(internal_segment_bytes=300, retention_ms=1))
    second = log.segments[1].base_offset
    assert kept(log, after(99_999), high_watermark=second - 1)[0] == 0
    assert kept(log, after(99_999), high_watermark=second)[0] == second


def test_a_compacted_topic_deletes_only_what_its_start_passed():
    log = filled(10, options(internal_segment_bytes=300, retention_ms=1, cleanup_policy="compact"))
    second = log.segments[1].base_offset
    assert kept(log, after(99_999))[0] == 0
    log.advance_start(second)
    assert kept(log, after(99_999))[0] == second


def test_a_reader_keeps_what_it_was_given_while_the_segment_goes():
    disk = sim_disk()
    log = filled(3, options(retention_ms=1_000), disk)
    piece = log.read(0, 10_000, 3)
    before = piece.file.read(piece.position, piece.length)
    for path in log.delete_old_segments(after(1_001), 3):
        disk.remove(path)
    assert piece.file.read(piece.position, piece.length) == before


# Durability.


def test_flush_is_due_by_messages_and_by_time():
    log = open_log(sim_disk(), options(flush_messages=2, flush_ms=500))
    assert not log.flush_due(after(900))
    log.append_as_leader(batch(), 0, NOW)
    assert not log.flush_due(after(499))
    assert log.flush_due(after(500))
    flush(log)
    log.append_as_leader(batch(), 0, NOW)
    assert not log.flush_due(after(999))
    log.append_as_leader(batch(), 0, NOW)
    assert log.flush_due(after(501))
    flush(log)
    assert log.recovery_point == 3


def test_by_default_only_a_roll_is_flushed():
    log = filled(3)
    assert not log.flush_due(after(10**12))
    log.roll(NOW)
    assert log.flush_due(NOW)
    paths = [file.path.rsplit("/", 1)[-1] for file in log.unsynced()]
    assert paths[:4] == [
        names.name(0, names.LOG),
        names.name(0, names.INDEX),
        names.name(0, names.TIME_INDEX),
        names.name(3, names.SNAPSHOT),
    ]
    assert set(paths) >= {"leader-epoch-checkpoint", "partition.metadata", "t-0"}
    assert not log.flush_due(NOW)
    assert log.recovery_point == 0
    log.mark_synced(3)
    assert log.recovery_point == 3


def test_a_flush_under_way_does_not_cover_what_a_truncation_replaced():
    log = filled(4)
    log.unsynced()
    log.truncate_to(2)
    for _ in range(3):
        log.append_as_leader(batch(b"new"), 1, NOW)
    log.mark_synced(4)
    assert log.recovery_point == 2
    flush(log)
    assert log.recovery_point == 5


def test_closing_waits_for_a_flush_under_way():
    disk = sim_disk()
    log = filled(3, disk=disk)
    log.roll(NOW)
    log.unsynced()
    log.append_as_leader(batch(), 0, NOW)
    log.close()
    assert log.recovery_point == 4
    disk.lose_power()
    assert len(read_batches(open_log(disk, recovery_point=4, clean=True))) == 4


def test_closing_an_empty_log_that_is_durable_writes_nothing():
    """A broker with thousands of empty partitions stops at once."""
    disk = sim_disk()
    open_log(disk).close(clean=True)
    log = open_log(disk, clean=True)
    touched = []
    disk.check = lambda operation, path, *_: touched.append((operation, path))
    log.close(clean=True)
    assert not [operation for operation, _ in touched if operation in ("write", "sync", "replace")]


def test_flushes_may_overlap():
    log = filled(2)
    log.unsynced()
    log.append_as_leader(batch(), 0, NOW)
    log.unsynced()
    assert not log.mark_synced(3), "the files that were asked for earlier are still under way"
    assert log.mark_synced(2)
    assert log.recovery_point == 3
    assert not log.mark_synced(3)


# Descriptors and memory.


def test_what_a_truncation_leaves_is_as_far_from_an_index_entry_as_it_is_long():
    log = filled(3)
    log.truncate_to(1)
    assert log.segments.active.unindexed == log.segments.active.size > 0


def test_many_old_segments_cost_few_descriptors():
    disk = sim_disk()
    log = open_log(disk, TINY, warm=Warm(4))
    for number in range(60):
        log.append_as_leader(batch(b"v%d" % number), 0, NOW)
    flush(log)
    assert len(log.segments) == 15
    for _ in range(2):
        read_batches(log)
        log.offset_for_timestamp(WALL, 60)
    assert disk.open_files <= 5
    log.close()
    assert disk.open_files == 0


def test_indexes_of_old_segments_are_bounded_in_memory():
    warm = Warm(limit=100, index_bytes=150)
    log = open_log(sim_disk(), TINY, warm=warm)
    for number in range(60):
        log.append_as_leader(batch(b"v%d" % number), 0, NOW)
    assert len(read_batches(log)) == 60
    loaded = [segment.loaded_index_bytes for segment in list(log.segments)[:-1]]
    assert 0 < sum(loaded) <= 150
    assert len(warm) < 14


def test_of_the_segments_that_are_open_the_least_recently_read_closes_first():
    warm, closed = Warm(limit=2), []

    class Open:
        loaded_index_bytes = 10

        def __init__(self, name):
            self.name = name

        def cool(self):
            closed.append(self.name)
            warm.discard(self)

    a, b, c = map(Open, "abc")
    for segment in (a, b, a, c):
        warm.touch(segment)
    assert closed == ["b"]


def test_an_idle_log_holds_no_descriptor():
    disk = sim_disk()
    filled(3, disk=disk).close()
    log = open_log(disk, recovery_point=3, clean=True)
    assert disk.open_files == 0
    assert len(read_batches(log)) == 3
    assert disk.open_files == 1


def test_a_deleted_log_leaves_its_folder_under_another_name():
    disk = sim_disk()
    log = filled(3, disk=disk)
    assert log.retire("t-0.abc-delete") == "/data/t-0.abc-delete"
    assert disk.list("/data") == ["t-0.abc-delete"]
    assert disk.open_files == 0
