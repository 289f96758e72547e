"""The epochs of a log after a crash: what the checkpoint has beyond the batches that compaction left, and what of it the
batches contradict, since a power loss may leave the checkpoint and the log of different times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.support import FOLDER, NOW, WALL, batch, flush, open_log, options, read_batches, sim_disk
from tidelog.log.checkpoints import LEADER_EPOCHS, OLD, format_epochs
from tidelog.log.compaction.candidates import candidate
from tidelog.log.compaction.compactor import compact
from tidelog.log.compaction.steps import Flush
from tidelog.log.epochs import EpochCache, EpochRun, agreed
from tidelog.wire.records import header

COMPACTED = options(cleanup_policy="compact", min_cleanable_dirty_ratio=0)
EPOCHS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 24)), max_size=8)


def put(log, epoch, *keys):
    for key in keys:
        log.append_as_leader(batch(b"of epoch %d" % epoch, key=key), epoch, NOW)


def compacted(disk):
    """Epochs 0 and 1 have no batch left, and 4 begins before its first one."""
    log = open_log(disk, COMPACTED)
    put(log, 0, b"a")
    put(log, 1, b"b")
    put(log, 4, b"a", b"c", b"b")
    put(log, 6, b"a")
    log.roll(NOW)
    put(log, 6, b"d")
    flush(log)
    for step in compact(candidate(log, log.recovery_point, WALL), WALL, 1 << 20):
        if isinstance(step, Flush):
            for file in step.files:
                file.sync()
    assert [header(data).leader_epoch for data in read_batches(log)] == [4, 4, 6, 6]
    return log


@pytest.mark.parametrize("recovery_point", [0, 3, 6, 7])
def test_epochs_whose_batches_compaction_removed_are_known_after_a_kill(recovery_point):
    """A follower that parted in epoch 1 must learn where that ended: seed 6600091 kept what was never committed."""
    disk = sim_disk()
    before = list(compacted(disk).epochs)
    assert before == [(0, 0), (1, 1), (4, 2), (6, 5)]
    disk.kill()
    log = open_log(disk, COMPACTED, recovery_point=recovery_point)
    assert list(log.epochs) == before
    assert log.epochs.end_offset_for(1, log.log_end_offset) == (1, 2)
    disk.kill()
    assert list(open_log(disk, COMPACTED).epochs) == before, "after another one"


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("0@0 1@1 4@2 6@5 7@7 9@8", "0@0 1@1 4@2 6@5"),  # ahead of the log
        ("0@0 1@1 4@2", "0@0 1@1 4@2 6@5"),  # behind it
        ("0@0 2@4 3@6", "0@0 4@3 6@5"),  # of before a cut
        ("0@0 1@1 7@2", "0@0 1@1 4@3 6@5"),  # of after a cut that is not on the disk
        ("1@1 4@4", "1@1 4@3 6@5"),  # inside what an epoch has
        ("4@2 5@5 6@6", "4@2 6@5"),  # an epoch that wrote nothing
        ("", "4@3 6@5"),
    ],
)
def test_what_the_batches_contradict_is_dropped_and_nothing_else(checkpoint, expected):
    disk = sim_disk()
    compacted(disk)
    disk.replace(f"{FOLDER}/{LEADER_EPOCHS}", format_epochs(entries(checkpoint)))
    disk.kill()
    log = open_log(disk, COMPACTED)
    assert list(log.epochs) == entries(expected)
    for data in map(header, read_batches(log)):
        assert log.epochs.epoch_at(data.base_offset) == data.leader_epoch


@pytest.mark.parametrize("seed", range(40))
def test_epochs_whose_batches_compaction_removed_are_known_after_a_power_loss(seed):
    """The checkpoint that was saved last may be torn by it."""
    disk = sim_disk(seed)
    log = compacted(disk)
    before = list(log.epochs)
    for epoch in range(7, 7 + seed % 3):
        log.assign_epoch(epoch, log.log_end_offset)
        put(log, epoch, b"a")
    end, point = log.log_end_offset, log.recovery_point
    if seed % 2:
        put(log, 11, b"a")
        flush(log)
        point = log.recovery_point
        log.assign_epoch(12, log.log_end_offset)
    disk.lose_power()
    log = open_log(disk, COMPACTED, recovery_point=point)
    assert list(log.epochs)[:4] == before
    for data in map(header, read_batches(log)):
        assert log.epochs.epoch_at(data.base_offset) == data.leader_epoch
    assert log.log_end_offset >= point, end
    after = list(log.epochs)
    disk.lose_power()
    assert list(open_log(disk, COMPACTED, recovery_point=point).epochs)[:4] == after[:4]


def test_a_checkpoint_whose_last_number_lost_digits_is_torn():
    disk = sim_disk()
    compacted(disk)
    path = f"{FOLDER}/{LEADER_EPOCHS}"
    disk.replace(path, b"0\n5\n0 0\n1 1\n4 2\n6 5\n7 12\n"[:-2])
    disk.replace(path + OLD, b"0\n3\n0 0\n1 1\n4 2\n")
    assert list(open_log(disk, COMPACTED).epochs) == [(0, 0), (1, 1), (4, 2), (6, 5)]
    assert disk.read(path) == b"0\n4\n0 0\n1 1\n4 2\n6 5\n"


def entries(text):
    return [tuple(map(int, entry.split("@"))) for entry in text.split()]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), max_size=6), EPOCHS)
def test_what_agrees_is_each_entry_that_no_batch_contradicts(steps, checkpoint):
    """Against a plain twin, which looks at every batch for every entry."""
    batches, epoch, offset = [], 0, 0
    for newer, gap, length in steps:
        epoch, offset = epoch + newer, offset + gap
        batches.append(EpochRun(epoch, offset, offset + length + 1))
        offset += length + 1
    runs = [
        EpochRun(epoch, min(b.start_offset for b in batches if b.epoch == epoch), last.end_offset)
        for epoch, last in {b.epoch: b for b in batches}.items()
    ]
    cache = EpochCache(checkpoint)
    found = agreed(cache, runs)
    found.check_invariants()
    for run in batches:
        assert found.epoch_at(run.start_offset) == found.epoch_at(run.end_offset - 1) == run.epoch
    for entry in cache:
        beside = EpochCache(sorted({entry, *((e, s) for e, s, _ in runs if e != entry.epoch)}))
        agrees = entry in list(beside) and all(
            beside.epoch_at(offset) == b.epoch for b in batches for offset in range(b.start_offset, b.end_offset)
        )
        assert (entry in list(found)) == agrees, entry
