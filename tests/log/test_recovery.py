"""Opening what a stopped process left: STORAGE.md section 3, case by case, and disks that refuse.

A fault must leave the log as it was, or unusable; what is read back afterwards, by this process or the next, is always
a prefix of what was appended and holds every append that returned.
"""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.support import (
    FOLDER,
    NOW,
    TOPIC_ID,
    WALL,
    batch,
    check_epochs,
    check_indexes,
    flush,
    open_log,
    options,
    read_batches,
    sim_disk,
)
from tidelog.errors import ApiError, CorruptLog, DiskFailed, ErrorCode
from tidelog.log import names, recovery, scan
from tidelog.log.interrupted import finish_replacement
from tidelog.log.log import Log
from tidelog.log.scan import STEP_BYTES
from tidelog.model import NO_ID, TopicPartition
from tidelog.sim.disk import SimFile
from tidelog.sim.faults import Fault
from tidelog.wire.records import HEADER_BYTES, header, stamp

TINY = options(internal_segment_bytes=300, index_interval_bytes=0)


def path(offset, kind):
    return f"{FOLDER}/{names.name(offset, kind)}"


def segmented(disk, count=12, *, close=True, **fields):
    """A log of several segments; the batches that it holds."""
    log = open_log(disk, TINY)
    for number in range(count):
        log.append_as_leader(batch(b"v%d" % number, **fields), number // 5, NOW)
    held = read_batches(log)
    if close:
        log.close()
    return log, held


def put(disk, name, content):
    file = disk.open(name, create=True)
    file.write(0, content)
    file.close()


def contents(disk, segment):
    return {kind: disk.read(path(segment, kind)) for kind in (names.LOG, names.INDEX, names.TIME_INDEX)}


# Clean stops.


def test_a_clean_stop_leaves_everything_to_be_found():
    disk = sim_disk()
    first, held = segmented(disk, producer_id=3, producer_epoch=0, base_sequence=0, count=1)
    log = open_log(disk, TINY, recovery_point=1, clean=True)
    assert read_batches(log) == held
    assert log.recovery_point == log.log_end_offset == 1
    assert log.producers.get(3).last_sequence == 0
    assert list(log.epochs) == list(first.epochs)
    before = disk.names.copy()
    log.close()
    assert disk.names == before, "a log that did nothing writes nothing"


def test_after_a_clean_stop_nothing_is_scanned():
    disk = sim_disk()
    log, held = segmented(disk)
    second = log.segments[1].base_offset
    disk.flip(path(second, names.LOG), 70)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert log.log_end_offset == 12
    assert len(read_batches(log)) == len(held)


def test_a_torn_tail_is_found_even_after_a_clean_stop():
    disk = sim_disk()
    log, held = segmented(disk)
    last = log.segments[-1]
    disk.open(last.path(names.LOG)).truncate(last.size - 5)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert read_batches(log) == held[:-1]


def test_an_empty_log_comes_back_where_it_started():
    disk = sim_disk()
    open_log(disk, start=0).close()
    log = open_log(disk, recovery_point=0, start=40)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (40, 40, 0)
    log.append_as_leader(batch(), 0, NOW)
    assert log.log_end_offset == 41


# Unclean stops.


def test_every_cut_of_the_tail_leaves_a_prefix():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    segment = log.segments[-1]
    content = disk.read(segment.path(names.LOG))
    whole = len(held) - len([data for data in held if header(data).base_offset >= segment.base_offset])
    for cut in range(len(content), -1, -7):
        disk.open(segment.path(names.LOG)).truncate(cut)
        log = open_log(disk, TINY)
        rest = sum(1 for end in ends(held[whole:]) if end <= cut)
        assert read_batches(log) == held[: whole + rest]
        check_indexes(log)
        check_epochs(log, held[: whole + rest])
        log.check_invariants()


def ends(batches):
    total = 0
    for data in batches:
        total += len(data)
        yield total


@pytest.mark.parametrize("position", [0, 8, 16, 17, 30, 65])
def test_the_log_ends_at_the_first_batch_that_is_not_whole(position):
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    second = log.segments[1].base_offset
    disk.flip(path(second, names.LOG), position)
    log = open_log(disk, TINY)
    assert read_batches(log) == [data for data in held if header(data).base_offset < second]
    assert not disk.exists(path(log.segments[-1].base_offset + 100, names.LOG))
    assert [name for name in disk.list(FOLDER) if name.endswith(names.DELETED)] == []
    log.append_as_leader(batch(), 9, NOW)
    assert log.log_end_offset == second + 1


def test_what_lies_below_the_recovery_point_is_not_scanned():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    flush(log)
    disk.flip(path(0, names.LOG), 65)
    log = open_log(disk, TINY, recovery_point=12)
    assert len(read_batches(log)) == len(held)
    assert log.recovery_point == 12


def test_a_lost_segment_ends_the_log():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    second = log.segments[1].base_offset
    disk.remove(path(second, names.LOG))
    log = open_log(disk, TINY)
    assert read_batches(log) == [data for data in held if header(data).base_offset < second]


def test_a_log_behind_its_checkpointed_start_begins_there_empty():
    disk = sim_disk()
    segmented(disk)
    log = open_log(disk, TINY, recovery_point=12, start=50)
    assert (log.log_start_offset, log.log_end_offset, log.size, len(log.epochs)) == (50, 50, 0, 0)
    log.check_invariants()


def test_the_start_is_the_checkpointed_one():
    disk = sim_disk()
    segmented(disk)
    log = open_log(disk, TINY, recovery_point=12, start=2, clean=False)
    assert log.log_start_offset == 2
    assert log.epochs.earliest == (0, 2)


def test_recovery_ends_durable_enough_to_move_the_recovery_point():
    disk = sim_disk()
    _, held = segmented(disk, close=False)
    log = open_log(disk, TINY)
    assert log.recovery_point == 0
    assert not log.flush_due(NOW)
    flush(log)
    assert log.recovery_point == 12
    disk.lose_power()
    log = open_log(disk, TINY, recovery_point=12)
    assert read_batches(log) == held


# Indexes, epochs, snapshots.


@pytest.mark.parametrize("kind", [names.INDEX, names.TIME_INDEX])
@pytest.mark.parametrize("damage", [None, b"", b"xyz", b"\xff" * 24])
def test_indexes_are_rebuilt_where_they_are_missing_or_cannot_be(kind, damage):
    disk = sim_disk()
    _, held = segmented(disk)
    before = contents(disk, 0)
    disk.remove(path(0, kind))
    if damage is not None:
        put(disk, path(0, kind), damage)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert read_batches(log) == held
    if damage is None:
        assert contents(disk, 0) == before
    if damage != b"":
        check_indexes(log)


def test_indexes_of_a_log_that_was_truncated_are_those_of_one_that_was_never_longer():
    config = options(index_interval_bytes=0)
    disks = [sim_disk(), sim_disk()]
    for disk, count in zip(disks, (9, 3), strict=True):
        log = open_log(disk, config)
        for _ in range(count):
            log.append_as_leader(batch(b"x"), 0, NOW)
        log.close()
    longer = open_log(disks[0], config, recovery_point=9, clean=True)
    longer.truncate_to(3)
    longer.close()
    for kind in (names.INDEX, names.TIME_INDEX):
        assert disks[0].read(path(0, kind)) == disks[1].read(path(0, kind))


def test_a_new_log_makes_two_files_and_looks_for_none(monkeypatch):
    """Of a topic's creation most time is new files: a thousand partitions, three replicas, three or four files each."""
    disk = sim_disk()
    operations = []
    monkeypatch.setattr(disk, "check", lambda operation, path, tear=None: operations.append((operation, path)))
    log = open_log(disk, TINY)
    assert disk.list(FOLDER) == ["00000000000000000000.log", "partition.metadata"]
    assert {path for operation, path in operations if operation == "read"} == set()
    assert {path for operation, path in operations if operation == "remove" and not path.endswith(".tmp")} == set()
    monkeypatch.undo()
    log.close()
    log = open_log(disk, TINY, clean=True)
    assert disk.list(FOLDER) == ["00000000000000000000.log", "partition.metadata"]
    log.append_as_leader(batch(), 3, NOW)
    assert disk.read(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n1\n3 0\n"


def test_leftover_and_unfinished_files_go():
    disk = sim_disk()
    _, held = segmented(disk)
    for name in (
        "00000000000000000999.index",
        "00000000000000000999.timeindex",
        "00000000000000000999.txnindex",
        "00000000000000000000.log.deleted",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000007.snapshot",
    ):
        put(disk, f"{FOLDER}/{name}", b"")
    put(disk, f"{FOLDER}/note.txt", b"mine")
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert read_batches(log) == held
    left = [name for name in disk.list(FOLDER) if "999" in name or name.endswith((".deleted", ".tmp"))]
    assert left == []
    assert disk.exists(f"{FOLDER}/note.txt")
    assert 7 not in log.snapshots.offsets


@pytest.mark.parametrize("damage", [None, b"", b"0\n5\n0 0\n", b"\x00" * 30])
@pytest.mark.parametrize("clean", [True, False])
def test_epochs_are_learned_from_the_batches_where_the_checkpoint_is_lost(damage, clean):
    disk = sim_disk()
    _, held = segmented(disk)
    disk.remove(f"{FOLDER}/leader-epoch-checkpoint")
    if damage is not None:
        put(disk, f"{FOLDER}/leader-epoch-checkpoint", damage)
    log = open_log(disk, TINY, recovery_point=8, clean=clean)
    assert list(log.epochs) == [(0, 0), (1, 5), (2, 10)]
    check_epochs(log, held)
    assert disk.read(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 5\n2 10\n"


@pytest.mark.parametrize(("start", "kept"), [(3, (0, 0)), (7, (1, 5)), (11, (2, 10))])
def test_epochs_below_a_start_that_was_forgotten_are_known_again(start, kept):
    """The epochs were cut with the deletion, and the start is one of before: seed 100027."""
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    log.advance_start(start)
    log.close()
    assert next(iter(log.epochs)) == (kept[0], start)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert list(log.epochs) == [(0, 0), (1, 5), (2, 10)]
    check_epochs(log, held)


def test_epochs_of_a_lost_tail_go_with_it():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    disk.open(log.segments[-1].path(names.LOG)).truncate(0)
    log = open_log(disk, TINY)
    check_epochs(log, [data for data in held if header(data).base_offset < log.log_end_offset])
    assert all(entry.start_offset < log.log_end_offset for entry in log.epochs)


def test_producers_are_replayed_from_the_newest_good_snapshot():
    disk = sim_disk()
    log = open_log(disk, TINY)
    for sequence in range(12):
        log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=sequence), 0, NOW)
    log.close()
    newest = log.snapshots.offsets[-1]
    disk.open(path(newest, names.SNAPSHOT)).write(10, b"junk")
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert log.producers.get(1).last_sequence == 11
    assert log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=11), 0, NOW).duplicate
    log.check_invariants()


def test_producers_of_deleted_records_are_known_from_the_snapshot_where_the_log_begins():
    """Seed 102112: their next retry was taken for a new batch."""
    disk = sim_disk()
    log = open_log(disk, options(internal_segment_bytes=300, retention_bytes=0))
    for number in range(4):
        log.append_as_leader(batch(b"v", producer_id=7, producer_epoch=0, base_sequence=number), 0, NOW)
    for gone in log.delete_old_segments(NOW, 4):
        disk.remove(gone)
    assert log.segments.base_offset == log.log_end_offset == 4
    disk.kill()
    log = open_log(disk, TINY, start=4)
    assert log.producers.get(7).last_sequence == 3


@pytest.mark.parametrize("clean", [False, True])
def test_the_last_epoch_is_known_where_all_records_are_deleted(clean):
    """Seed 3000347: a log without an epoch stood behind one that lacked the end of it, and lost the election."""
    disk = sim_disk()
    log = open_log(disk, options(internal_segment_bytes=300, retention_bytes=0))
    for epoch in (1, 1, 4):
        log.append_as_leader(batch(b"v"), epoch, NOW)
    for gone in log.delete_old_segments(NOW, 3):
        disk.remove(gone)
    log.close(clean=clean)
    disk.kill()
    again = open_log(disk, TINY, recovery_point=3 if clean else 0, start=3 if clean else 0, clean=clean)
    assert (again.log_start_offset, again.log_end_offset, list(again.epochs)) == (3, 3, [(4, 3)])
    again.append_as_leader(batch(b"v"), 4, NOW)
    assert list(again.epochs) == [(4, 3)]


def test_snapshots_above_the_recovery_point_are_not_believed():
    disk = sim_disk()
    log = open_log(disk, TINY)
    log.append_as_leader(batch(producer_id=1, producer_epoch=0, base_sequence=0), 0, NOW)
    log.close()
    liar = disk.read(path(1, names.SNAPSHOT))
    log = open_log(disk, TINY, recovery_point=1, clean=True)
    log.truncate_to(0)
    log.append_as_leader(batch(b"another's"), 1, NOW)
    disk.kill()
    put(disk, path(1, names.SNAPSHOT), liar)
    log = open_log(disk, TINY)
    assert log.producers.get(1) is None


# Interrupted compaction.


def compacted(disk, suffix):
    """Segment 0 of a log rewritten under a suffix, as a compaction leaves it; the batches of the result."""
    log, held = segmented(disk)
    end = log.segments[1].base_offset
    rewritten = held[1]
    for kind in (names.INDEX, names.TIME_INDEX):
        put(disk, path(0, kind) + suffix, b"")
    put(disk, path(0, names.LOG) + suffix, rewritten + held[end - 1])
    return held, [rewritten, held[end - 1], *held[end:]]


def test_a_compaction_without_all_its_swap_files_is_undone():
    disk = sim_disk()
    held, _ = compacted(disk, names.CLEANED)
    put(disk, path(4, names.LOG) + names.SWAP, b"")
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert read_batches(log) == held
    assert not [name for name in disk.list(FOLDER) if name.endswith((names.CLEANED, names.SWAP))]


@pytest.mark.parametrize("clean", [True, False])
def test_a_compaction_with_all_its_swap_files_is_finished(clean):
    disk = sim_disk()
    _, expected = compacted(disk, names.SWAP)
    log = open_log(disk, TINY, recovery_point=12, clean=clean)
    assert read_batches(log) == expected
    assert log.log_end_offset == 12
    assert not [name for name in disk.list(FOLDER) if name.endswith((names.CLEANED, names.SWAP))]
    log.check_invariants()


def test_the_segments_that_one_took_the_place_of_go_first():
    disk = sim_disk()
    log, held = segmented(disk)
    second, third = (log.segments[number].base_offset for number in (1, 2))
    for kind in (names.INDEX, names.TIME_INDEX):
        put(disk, path(0, kind) + names.SWAP, b"")
    put(disk, path(0, names.LOG) + names.SWAP, b"".join(held[:third]))
    left = finish_replacement(disk, FOLDER)
    assert names.name(second, names.LOG) not in left
    assert {names.name(base, names.LOG) for base in (0, third)} <= set(left)


def test_batches_are_found_whole_where_they_end_beyond_what_was_read(monkeypatch):
    disk = sim_disk()
    log = open_log(disk)
    for number in range(4):
        log.append_as_leader(batch(b"v%d" % number), 0, NOW)
    monkeypatch.setattr(scan, "SCAN_BYTES", log.segments.active.size // 4 + HEADER_BYTES + 2)
    assert [found.base_offset for found in scan.whole_batches(log.segments.active.file, log.segments.active.size)] == [
        0, 1, 2, 3,
    ]  # fmt: skip


def test_a_compaction_that_was_finished_at_the_start_is_durable():
    """Before anything else is: what is synced later must not be found beside names of before."""
    disk = sim_disk()
    compacted(disk, names.SWAP)
    finish_replacement(disk, FOLDER)
    assert disk.pending == []


@pytest.mark.parametrize("kind", ["offsets", "times"])
@pytest.mark.parametrize(("last", "is_below"), [(3, True), (4, False)])
def test_an_index_ends_below_a_segment_where_its_last_entry_does(kind, last, is_below):
    lasts = {"offsets": (3, 70), "times": (WALL, 3)}
    lasts[kind] = (last, 70) if kind == "offsets" else (WALL, last)
    segment = SimpleNamespace(**{name: SimpleNamespace(last=entry) for name, entry in lasts.items()})
    assert recovery._indexes_end_below(segment, 4) == is_below


# Identity.


def test_a_folder_of_another_topic_is_refused():
    disk = sim_disk()
    segmented(disk)
    for clean in (True, False):
        with pytest.raises(CorruptLog, match="another topic"):
            Log.open(disk, FOLDER, TopicPartition("t", 0), bytes(range(1, 17)), TINY, recovery_point=12,
                     log_start_offset=0, clean=clean, now=NOW)  # fmt: skip
    log = Log.open(disk, FOLDER, TopicPartition("t", 0), NO_ID, TINY, recovery_point=12, log_start_offset=0,
                   clean=True, now=NOW)  # fmt: skip
    assert log.topic_id == TOPIC_ID


# Disks that refuse.


def test_a_refused_write_leaves_the_log_as_it_was():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    disk.capacity = disk.used() + 40
    with pytest.raises(DiskFailed):
        log.append_as_leader(batch(b"x" * 60), 2, NOW)
    assert log.log_end_offset == 12
    assert not log.failed
    assert read_batches(log) == held
    assert disk.open(log.segments.active.path(names.LOG)).size() == log.segments.active.size
    disk.capacity = None
    log.append_as_leader(batch(b"again"), 2, NOW)
    assert log.log_end_offset == 13


def test_a_log_whose_tail_cannot_be_mended_refuses_everything():
    disk = sim_disk()
    log, held = segmented(disk, close=False)
    disk.faults = [Fault("write", ".log"), Fault("truncate", ".log")]
    with pytest.raises(DiskFailed):
        log.append_as_leader(batch(), 2, NOW)
    disk.faults = []
    assert log.failed
    for refused in (
        lambda: log.append_as_leader(batch(), 2, NOW),
        lambda: log.append_as_follower(batch(), NOW),
        lambda: log.truncate_to(0),
        lambda: log.roll(NOW),
        lambda: log.delete_old_segments(NOW, 12),
    ):
        with pytest.raises(DiskFailed):
            refused()
    assert read_batches(log) == held
    log.close()
    assert disk.open_files == 0


def test_a_failed_sync_does_not_move_the_recovery_point():
    disk = sim_disk()
    log, _ = segmented(disk, close=False)
    disk.faults = [Fault("sync")]
    with pytest.raises(DiskFailed):
        flush(log)
    assert log.recovery_point == 0


ACTIONS = st.lists(
    st.sampled_from(["append", "append", "append", "follow", "truncate", "roll", "delete", "flush"]), max_size=10
)


@given(
    ACTIONS,
    st.sampled_from(["*", "write", "create", "truncate", "rename", "remove", "sync", "read"]),
    st.integers(0, 60),
)
def test_a_disk_that_refuses_anywhere_leaves_nothing_inconsistent(actions, operation, passes):
    disk = sim_disk()
    log = open_log(disk, TINY)
    disk.faults = [Fault(operation, after=passes, times=2)]
    held, truncating = [], False
    for number, action in enumerate(actions):
        try:
            if action == "append":
                data = bytearray(batch(b"a" * number * 9, producer_id=number, producer_epoch=0, base_sequence=0))
                log.append_as_leader(data, max(number // 3, log.epochs.latest), NOW)
                held.append(bytes(data))
            elif action == "follow":
                follow(log, held, number)
            elif action == "truncate":
                truncating = True
                target = log.log_end_offset // 2
                log.truncate_to(target)
                held = [data for data in held if header(data).last_offset < target]
                truncating = False
            elif action == "roll":
                log.roll(NOW)
            elif action == "delete":
                log.delete_old_segments(NOW, log.log_end_offset)
            else:
                flush(log)
        except DiskFailed:
            break
    disk.faults = []
    if not log.failed:
        log.check_invariants()
        assert read_batches(log) == held
        check_indexes(log)
        check_epochs(log, held)
        assert all(entry.start_offset <= log.log_end_offset for entry in log.epochs)
    disk.kill()
    log = open_log(disk, TINY)
    found = read_batches(log)
    if truncating:
        shorter = [data for data in held if header(data).last_offset < log.log_end_offset]
        assert found == shorter[: len(found)]
    else:
        assert found == held
    log.check_invariants()


def follow(log, held, number):
    offset = log.log_end_offset
    chunk = [
        batch(b"f" * 90, base_offset=offset + i, leader_epoch=max(number, log.epochs.latest) + i // 2) for i in range(5)
    ]
    try:
        log.append_as_follower(b"".join(chunk), NOW)
    finally:
        held += [data for data in chunk if header(data).base_offset < log.log_end_offset]


def test_a_rotten_index_is_made_again_from_the_records():
    disk = sim_disk()
    log, held = segmented(disk)
    for segment in list(log.segments)[:-1]:
        disk.flip(segment.path(names.INDEX), 7)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    assert read_batches(log) == held


def test_a_hole_at_which_a_follower_began_a_segment_costs_nothing():
    """A compacted leader has none of the records between, and the next one no longer fitted."""
    disk = sim_disk()
    log = open_log(disk, options(segment_bytes=1_000))
    for offset in (0, 1, 10, 11):
        log.append_as_follower(batch(b"v" * 400, base_offset=offset, leader_epoch=0), NOW)
    held = read_batches(log)
    assert len(log.segments) == 2
    disk.kill()
    assert read_batches(open_log(disk, options(segment_bytes=1_000))) == held


def test_rotten_records_are_an_error_where_they_are_and_nowhere_else():
    disk = sim_disk()
    log, held = segmented(disk)
    log = open_log(disk, TINY, recovery_point=12, clean=True)
    second = log.segments[1].base_offset
    for position in (8, 16):
        disk.flip(path(second, names.LOG), position)
    for read in (lambda: log.read(second, 100, 12), lambda: log.offset_for_timestamp(NOW.wall, 12)):
        log.segments[1].cool()
        log.advance_start(second)
        with pytest.raises(ApiError) as error:
            read()
        assert error.value.code == ErrorCode.CORRUPT_MESSAGE
    third = log.segments[2].base_offset
    assert read_batches(log, third) == [data for data in held if header(data).base_offset >= third]
    assert log.segments[1].size == len(disk.read(path(second, names.LOG)))


def test_walking_into_garbage_names_the_file():
    disk = sim_disk()
    segmented(disk)
    put(disk, "/data/garbage", b"\x01" * 100)
    file = disk.open("/data/garbage")
    with pytest.raises(CorruptLog, match="/data/garbage"):
        list(recovery.walk(file, 0, 100))


# Truncation into a hole.


@pytest.mark.parametrize("held", [(0, 7), (0, 1, 7), (7,)])
@pytest.mark.parametrize("roll_before_last", [False, True])
def test_what_is_appended_after_a_truncation_into_a_hole_survives_a_kill(held, roll_before_last):
    disk = sim_disk()
    log = open_log(disk)
    for offset in held:
        if offset == 7 and roll_before_last:
            log.roll(NOW)
        log.append_as_follower(moved(batch(b"old"), offset), NOW)
    log.truncate_to(4)
    assert log.log_end_offset == 4
    log.append_as_leader(batch(b"new"), 1, NOW)
    log.check_invariants()
    expected = read_batches(log)
    disk.kill()
    log = open_log(disk)
    assert read_batches(log) == expected
    assert log.log_end_offset == 5
    log.check_invariants()


def moved(data, offset):
    moved_batch = bytearray(data)
    stamp(moved_batch, 0, offset, 0)
    return moved_batch


# What recovery reads.


def test_after_a_kill_only_what_lies_past_the_recovery_point_is_read(monkeypatch):
    disk = sim_disk()
    log = open_log(disk, options(internal_segment_bytes=20_000))
    for number in range(300):
        log.append_as_leader(batch(b"%d" % number * 300), 0, NOW)
    point = flush(log)
    for number in range(30):
        log.append_as_leader(batch(b"%d" % number * 300), 0, NOW)
    held = read_batches(log, max_bytes=10_000)
    past = [segment.path(names.LOG) for segment in log.segments if segment.base_offset >= point]
    around = log.segments[log.segments.floor(point)].path(names.LOG)
    old = [segment.path(names.LOG) for segment in log.segments if segment.base_offset < point][:-1]
    assert len(old) > 10
    disk.kill()

    read: dict[str, int] = {}
    reads = SimFile.read

    def counted(file, position, length):
        data = reads(file, position, length)
        read[file.path] = read.get(file.path, 0) + len(data)
        return data

    monkeypatch.setattr(SimFile, "read", counted)
    log = open_log(disk, options(internal_segment_bytes=20_000), recovery_point=point)
    assert not [path for path in old[:-1] if path in read], "not one byte"
    assert read.get(old[-1], 0) <= 6 * STEP_BYTES, "where the one before ends, and what its last index entries say"
    assert sum(read.values()) <= 3 * (len(past) + 1) * 20_000 + 6 * STEP_BYTES
    assert around in read
    monkeypatch.undo()
    assert read_batches(log, max_bytes=10_000) == held
