"""A kill, and a loss of power, within every operation of the disk that an append, a roll, a truncation, a deletion or a
checkpoint makes (compaction and moves between folders have theirs in test_compaction and tests/node/test_relocation).

What is there afterwards begins with all that was durable, holds all that was appended if the page cache stayed, and
never mixes what was cut off with what came in its place.
"""

from random import Random

import pytest

from tests.log.support import (
    NOW,
    after,
    batch,
    check_epochs,
    check_indexes,
    flush,
    open_log,
    options,
    read_batches,
    sim_disk,
)
from tidelog.log import checkpoints
from tidelog.model import TopicPartition
from tidelog.sim.disk import PowerCut

TINY = options(internal_segment_bytes=300, index_interval_bytes=0)
SHORT_LIVED = options(internal_segment_bytes=300, index_interval_bytes=0, retention_ms=10)
KILL, POWER = "kill", "lose_power"


def grown(disk, count=10, epoch=0):
    """A log of several segments, all durable; its batches and the recovery point."""
    log = open_log(disk, TINY)
    for number in range(count):
        log.append_as_leader(batch(b"v%d" % number), epoch, NOW)
    point = flush(log)
    for path, inode in list(disk.names.items()):
        if inode is not None:
            disk.open(path).sync()
    for folder in ("/", "/data", "/data/t-0"):
        disk.settle(folder)
    return log, read_batches(log), point


def cut_short(disk, operations, act):
    """Whether the process came to its end within the act."""
    disk.operations_left = operations
    try:
        act()
    except PowerCut:
        return True
    disk.operations_left = None
    return False


def crashes(act, judge, *, how, seeds=(0, 1, 2), config=TINY):
    """`act(log)` on a fresh log, cut short after each number of operations until it gets through; then `judge(before,
    after, log)`. How often it was cut."""
    for seed in seeds:
        operations, is_cut = 0, True
        while is_cut:
            disk = sim_disk(seed)
            log, before, point = grown(disk)
            disk.random = Random(seed * 1_000 + operations)
            done = []
            is_cut = cut_short(disk, operations, lambda log=log, done=done: act(log, done))
            getattr(disk, how)()
            again = open_log(disk, config, recovery_point=min(point, *done) if done and how == POWER else point)
            found = read_batches(again)
            again.check_invariants()
            check_indexes(again)
            check_epochs(again, found)
            judge(before, found, log, operations)
            again.append_as_leader(batch(b"after"), 9, NOW)
            operations += 1
    return operations


@pytest.mark.parametrize("how", [KILL, POWER])
def test_appends_and_rolls(how):
    appended = []

    def act(log, _done):
        appended.clear()
        for number in range(10):
            log.append_as_leader(batch(b"new %d" % number), 1, NOW)
            appended.append(number)

    def judge(before, found, _log, operations):
        assert found[: len(before)] == before, operations
        if how == KILL:
            assert len(found) >= len(before) + len(appended), operations

    assert crashes(act, judge, how=how) > 40


@pytest.mark.parametrize("how", [KILL, POWER])
@pytest.mark.parametrize("kept", [9, 5, 3, 1])
def test_truncations_and_what_is_appended_then(how, kept):
    fresh = batch(b"in its place")

    def act(log, done):
        log.truncate_to(kept)
        done.append(kept)  # the caller checkpoints the recovery point before it goes on
        log.append_as_leader(bytearray(fresh), 4, NOW)
        log.append_as_leader(bytearray(fresh), 4, NOW)

    def judge(before, found, _log, operations):
        common = next((at for at, (old, new) in enumerate(zip(before, found, strict=False)) if old != new), None)
        common = min(len(before), len(found)) if common is None else common
        assert common >= kept, operations
        new = found[common:]
        assert all(b"in its place" in data for data in new), operations
        assert not new or common == kept, (operations, "behind what was cut off")

    assert crashes(act, judge, how=how) > 10


@pytest.mark.parametrize("synced", [2, 6])
def test_a_cut_that_was_not_synced_before_a_kill_brings_nothing_back_behind_new_records(synced):
    """The recovery point may be below the cut: what stood above it can be on the platter all the same."""
    came_back = 0
    for seed in range(40):
        disk = sim_disk(seed)
        log = open_log(disk)
        for number in range(6):
            log.append_as_leader(batch(b"v%d" % number), 0, NOW)
        for file in log.unsynced():
            file.sync()
        old = read_batches(log)
        log.truncate_to(3)
        disk.kill()
        log = open_log(disk, recovery_point=synced)
        log.append_as_leader(batch(b"w3"), 1, NOW)
        new = read_batches(log)
        disk.lose_power()
        found = read_batches(open_log(disk, recovery_point=min(synced, 3)))
        assert len(found) >= 3
        assert found in (old[: len(found)], new[: len(found)]), (seed, "behind new records")
        came_back += found == old
    assert came_back > 0


@pytest.mark.parametrize("how", [KILL, POWER])
def test_a_log_that_starts_over(how):
    def act(log, done):
        log.truncate_fully_and_start_at(50)
        done.append(0)
        log.append_as_leader(batch(b"far"), 3, NOW)

    def judge(before, found, _log, operations):
        is_old = found == before[: len(found)]
        assert is_old or (len(found) == 1 and b"far" in found[0]), operations

    assert crashes(act, judge, how=how) > 5


@pytest.mark.parametrize("how", [KILL, POWER])
def test_old_segments_go_from_the_front_only(how):
    def act(log, _done):
        log.config = SHORT_LIVED
        for path in log.delete_old_segments(after(10_000), high_watermark=8):
            log.segments.disk.remove(path)

    def judge(before, found, _log, operations):
        assert before[len(before) - len(found) :] == found, operations
        assert found, "what is not committed stays"

    assert crashes(act, judge, how=how) > 10


@pytest.mark.parametrize("how", [KILL, POWER])
def test_a_checkpoint_is_the_old_one_or_the_new_one(how):
    path = f"/data/{checkpoints.RECOVERY_POINTS}"
    old = checkpoints.format_offsets([(TopicPartition("t", 0), 7)])
    new = checkpoints.format_offsets((TopicPartition("t", number), 7 + number) for number in range(50))
    for seed in range(5):
        operations, is_cut = 0, True
        while is_cut:
            disk = sim_disk(seed)
            disk.replace(path, old)
            is_cut = cut_short(disk, operations, lambda disk=disk: disk.replace(path, new))
            getattr(disk, how)()
            assert disk.read(path) in (old, new), operations
            operations += 1
        assert disk.read(path) == new, "what is replaced durably lasts"
        assert operations > 4
