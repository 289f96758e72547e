"""A cut is known after a kill: the checkpoint may still call what stood there durable, and the platter may have it."""

import pytest

from tests.log.support import FOLDER, NOW, batch, open_log, options, sim_disk
from tidelog.log import names

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
