"""A cut is known after a kill: the checkpoint may still call what stood there durable, and the platter may have it."""

import pytest

from tests.log.support import FOLDER, NOW, batch, open_log, options, read_batches, sim_disk
from tidelog.log import names
from tidelog.sim.disk import PowerCut
from tidelog.wire.records import header

TINY = options(internal_segment_bytes=300, index_interval_bytes=0)


def sync(log):
    offset = log.log_end_offset
    for file in log.unsynced():
        file.sync()
    log.mark_synced(offset)


def append(log, count, epoch=0):
    for number in range(count):
        log.append_as_leader(batch(b"v%d" % number), epoch, NOW)


def marks(disk):
    return [name for name in disk.list(FOLDER) if name.endswith(names.CUT)]


@pytest.fixture
def cut():
    """(disk, log): twelve records were durable, and four of them stayed; five others follow, not synced yet."""
    disk = sim_disk()
    log = open_log(disk, TINY)
    append(log, 12)
    sync(log)
    assert log.recovery_point == 12
    log.truncate_to(4)
    append(log, 5, epoch=1)
    return disk, log


def test_nothing_above_the_cut_is_believed_after_a_kill(cut):
    disk, _ = cut
    disk.kill()
    log = open_log(disk, TINY, recovery_point=12)
    assert log.recovery_point == 4
    assert log.log_end_offset == 9
    sync(log)
    disk.lose_power()
    assert open_log(disk, TINY, recovery_point=12).log_end_offset == 9


def test_a_mark_goes_when_all_is_durable_that_was_believed_to_be(cut):
    disk, log = cut
    sync(log)
    assert marks(disk) == ["00000000000000000004.cut"], "the checkpoint may say 12"
    append(log, 3, epoch=1)
    sync(log)
    assert marks(disk) == []


def test_a_clean_stop_leaves_no_mark(cut):
    disk, log = cut
    log.close()
    assert marks(disk) == []


def test_one_above_what_is_durable_stays_until_what_came_after_it_is(cut):
    disk, log = cut
    before = log.unsynced()
    log.truncate_to(6)
    for file in before:
        file.sync()
    log.mark_synced(9)
    assert log.recovery_point == 6
    assert marks(disk) == ["00000000000000000004.cut", "00000000000000000006.cut"]
    append(log, 6, epoch=2)
    sync(log)
    assert marks(disk) == []


def test_the_lowest_cut_counts(cut):
    disk, log = cut
    log.truncate_to(6)
    log.truncate_to(2)
    disk.kill()
    assert open_log(disk, TINY, recovery_point=12).recovery_point == 2


@pytest.mark.parametrize(("end", "bases"), [(6, [0, 4, 6]), (4, [0, 4])])
def test_after_a_kill_nothing_is_appended_to_a_file_that_was_cut(cut, end, bases):
    disk, log = cut
    log.truncate_to(end)
    disk.kill()
    log = open_log(disk, options(index_interval_bytes=0), recovery_point=12)
    append(log, 2, epoch=2)
    assert [segment.base_offset for segment in log.segments] == bases


def test_a_log_that_starts_over_is_cut_too(cut):
    disk, log = cut
    sync(log)
    log.truncate_fully_and_start_at(3)
    append(log, 2, epoch=2)
    disk.kill()
    assert open_log(disk, TINY, recovery_point=12, start=3).recovery_point == 3


def gap(disk):
    """A follower's log of a compacted partition that was truncated between two batches, at 7."""
    log = open_log(disk)
    for offset in (0, 4, 9):
        log.append_as_follower(batch(b"old", base_offset=offset), NOW)
    log.truncate_to(7)
    log.append_as_follower(batch(b"new", base_offset=8, leader_epoch=1), NOW)
    return log


def rolled(disk):
    """A log that was truncated at 2, and then again at 4, in the segment that had begun there."""
    log = open_log(disk)
    append(log, 3)
    log.truncate_to(2)
    append(log, 4, epoch=1)
    log.truncate_to(4)
    append(log, 2, epoch=2)
    return log


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("make", [gap, rolled])
def test_a_kill_during_the_recovery_of_a_truncated_log_loses_nothing(make, power):
    """`cut_again` leaves a byte behind the records of a segment if it is interrupted."""
    is_cut, operations = True, 0
    while is_cut:
        disk = sim_disk(operations)
        log = make(disk)
        expected = read_batches(log)
        assert len(log.segments) > 1
        if power:  # synced, but the process is killed before it learns that
            for file in log.unsynced():
                file.sync()
        disk.kill()
        disk.operations_left = operations
        try:
            open_log(disk)
            is_cut = False
        except PowerCut:
            pass
        disk.lose_power() if power else disk.kill()
        again = open_log(disk)
        assert read_batches(again) == expected, operations
        assert again.log_end_offset == header(expected[-1]).next_offset
        again.check_invariants()
        operations += 1
    assert operations > 10


@pytest.mark.parametrize(("make", "bases"), [(gap, {0}), (rolled, {0, 2})])
def test_each_truncated_file_is_truncated_again_also_one_that_ended_in_a_gap(make, bases):
    disk = sim_disk()
    make(disk)
    disk.kill()
    changed = set()
    disk.check = lambda operation, path, tear=None: changed.add(path) if operation == "truncate" else None
    open_log(disk)
    logs = {path for path in changed if path.endswith(names.LOG)}
    assert logs == {f"{FOLDER}/{names.name(base, names.LOG)}" for base in bases}
