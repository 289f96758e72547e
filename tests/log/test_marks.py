"""A cut below the recovery point is known after a kill, though the checkpoint still calls what stood there durable."""

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


def test_the_lowest_cut_counts_and_one_above_what_is_durable_leaves_no_mark(cut):
    disk, log = cut
    log.truncate_to(6)
    assert marks(disk) == ["00000000000000000004.cut"]
    log.truncate_to(2)
    disk.kill()
    assert open_log(disk, TINY, recovery_point=12).recovery_point == 2


def test_a_log_that_starts_over_is_cut_too(cut):
    disk, log = cut
    sync(log)
    log.truncate_fully_and_start_at(3)
    append(log, 2, epoch=2)
    disk.kill()
    assert open_log(disk, TINY, recovery_point=12, start=3).recovery_point == 3
