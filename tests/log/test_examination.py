"""Every single bit of a segment that turns is found, in whatever field it is, and another copy's bytes mend it."""

from types import SimpleNamespace

import pytest

from tests.log.support import FOLDER, NOW, batch, open_log, options, read_batches, sim_disk
from tidelog.effects import Stretch
from tidelog.log import names
from tidelog.log.examination import UNKNOWN, examine
from tidelog.log.integrity import Unsound, mark_sound, read, record_verdict, splice
from tidelog.log.soundness import Soundness

PATH = f"{FOLDER}/{names.name(0, names.LOG)}"


def cold_log(disk, **config):
    """Segment 0 has three batches of two epochs; the active one has one."""
    log = open_log(disk, options(index_interval_bytes=1, **config))
    for number in range(3):
        log.append_as_leader(batch(b"v%d" % number, b"w%d" % number), number // 2 + 1, NOW)
    log.roll(NOW)
    log.append_as_leader(batch(b"active"), 3, NOW)
    return log


def stretch_of(log, number=0, start=0, **changed):
    segment = log.segments[number]
    epochs = tuple((entry.epoch, entry.start_offset) for entry in log.epochs)
    whole = Stretch(segment.file, start, segment.size, segment.size, segment.base_offset, UNKNOWN, range(2**62), gaps=False,
                    epochs=epochs)  # fmt: skip
    return whole._replace(**changed)


def test_a_sound_segment_has_no_faults():
    disk = sim_disk()
    log = cold_log(disk)
    size = log.segments[0].size
    assert examine(stretch_of(log)) == (size, ())
    assert examine(stretch_of(log, expected=UNKNOWN, gaps=True, epochs=())) == (size, ())


def read_as_partition(log, offset, limit=7):
    """As `Partition.read`; what must be examined is, at once."""
    for _ in range(4):
        try:
            return read(log, offset, 10_000, limit, at_least_one=True)
        except Unsound as unsound:
            if unsound.stretch is None:
                return unsound
            record_verdict(log, unsound.segment, unsound.stretch, examine(unsound.stretch))
    raise AssertionError("it is examined again and again")


def bits(disk):
    return range(8 * len(disk.read(PATH)))


def flip(disk, bit):
    disk.inode(PATH).cached[bit // 8] ^= 1 << bit % 8


def test_every_bit_that_turns_is_found_and_mended_and_no_wrong_byte_is_read():
    disk = sim_disk()
    log = cold_log(disk)
    good = disk.read(PATH)
    held = read_batches(log)
    for bit in bits(disk):
        log.segments[0].cool()
        flip(disk, bit)
        found = read_as_partition(log, 0)
        if not isinstance(found, Unsound):
            data = found.file.read(found.position, found.length)
            assert good.startswith(data), f"bit {bit}: what is given out is what was written"
            assert len(data) < len(good), f"bit {bit} is found"
            (fault, *_) = sorted(log.segments[0].sound.faults.values())
            found = read_as_partition(log, fault.offset)
        assert isinstance(found, Unsound), bit
        for fault in sorted(log.segments[0].sound.faults.values()):
            at = next(number for number, data in enumerate(held) if sum(map(len, held[:number])) == fault.position)
            assert splice(log, log.segments[0], fault, b"".join(held[at:3])) is not None
        assert disk.read(PATH) == good
        assert not log.segments.faulty
        assert read_as_partition(log, 0).length == len(good)


def test_a_process_trusts_what_it_wrote_itself_and_nothing_that_it_found():
    disk = sim_disk()
    log = cold_log(disk)
    assert log.segments.active.sound.trusted == 0
    log.close()
    log = open_log(disk, recovery_point=7, clean=True)
    active = log.segments.active
    assert active.sound.trusted == active.size
    log.append_as_leader(batch(b"new"), 3, NOW)
    assert read_as_partition(log, 7, limit=8).position == active.sound.trusted
    disk.inode(active.path(names.LOG)).cached[70] ^= 1
    assert isinstance(read_as_partition(log, 6, limit=8), Unsound)


def test_a_read_that_reaches_what_this_process_wrote_needs_no_other_examination():
    disk = sim_disk()
    cold_log(disk).close()
    log = open_log(disk, recovery_point=7, clean=True)
    read_as_partition(log, 6, limit=7)
    log.append_as_leader(batch(b"new"), 3, NOW)
    piece = read(log, 6, 10_000, 8, at_least_one=True)
    assert (piece.position, piece.length) == (0, log.segments.active.size)


def test_it_is_examined_once_as_long_as_the_file_is_open():
    disk = sim_disk()
    log = cold_log(disk)
    read_as_partition(log, 0)
    flip(disk, 1_000)
    assert not isinstance(read_as_partition(log, 0), Unsound)
    log.segments[0].cool()
    assert isinstance(read_as_partition(log, 2), Unsound)


def test_bytes_that_do_not_fit_are_not_taken():
    disk = sim_disk()
    log = cold_log(disk)
    held = read_batches(log)
    flip(disk, 8 * (len(held[0]) + 80))
    bad = disk.read(PATH)
    (fault,) = examine(stretch_of(log)).faults
    assert fault.offset == 2
    for other in (b"", held[0], batch(b"of another length, of course"), held[1][:-1], bad[len(held[0]) :]):
        assert splice(log, log.segments[0], fault, other) is None
    assert disk.read(PATH) == bad
    assert splice(log, log.segments[0], fault, held[1] + held[2][:30]) == len(held[1])


def test_only_what_a_checksum_says_is_sure():
    disk = sim_disk()
    log = cold_log(disk)
    disk.inode(PATH).cached[15] ^= 1
    (fault,) = examine(stretch_of(log)).faults
    assert not fault.sure
    assert "leader epoch" in fault.reason
    good = read_batches(log)
    assert splice(log, log.segments[0], fault, good[0]) == 0, "the same bytes elsewhere: it is believed"


@pytest.mark.parametrize("position", [16, 40, 70])
def test_a_stretch_may_begin_within_the_segment(position):
    disk = sim_disk()
    log = cold_log(disk)
    start = len(read_batches(log)[0])
    disk.inode(PATH).cached[start + position] ^= 4
    (fault,) = examine(stretch_of(log, start=start, expected=UNKNOWN, last=3)).faults
    assert (fault.position, fault.offset) == (start, 3)


def test_what_is_believed_is_not_examined_again():
    segment = SimpleNamespace(sound=Soundness(), base_offset=7)
    log = SimpleNamespace(segments=SimpleNamespace(faulty={7}))
    mark_sound(log, segment, 10, 100)
    assert segment.sound.stretches.cover(10, 100)
    assert log.segments.faulty == set()


def test_a_length_that_leads_to_the_end_of_the_file_is_not_taken_for_the_end_of_the_log():
    disk = sim_disk()
    log = open_log(disk)
    for number in range(3):
        log.append_as_leader(batch(b"v%d" % number), 1, NOW)
    log.close()
    log = open_log(disk, recovery_point=3, clean=True)
    content = disk.inode(PATH).cached
    second = len(content) // 3
    content[second + 8 : second + 12] = (len(content) - second - 12).to_bytes(4, "big")
    assert isinstance(read_as_partition(log, 2, limit=3), Unsound)


def test_behind_the_last_batch_of_a_segment_may_be_nothing():
    """Where it was compacted away, and the next segment is empty still."""
    disk = sim_disk()
    log = open_log(disk)
    log.append_as_leader(batch(b"v"), 1, NOW)
    log.close()
    log = open_log(disk, recovery_point=1, clean=True)
    log.log_end_offset = 3
    assert read_as_partition(log, 1, limit=3) is None


def test_a_batch_that_reaches_over_the_limit_is_not_taken_for_damage():
    disk = sim_disk()
    log = open_log(disk)
    log.append_as_leader(batch(b"v", b"w"), 1, NOW)
    log.close()
    log = open_log(disk, recovery_point=2, clean=True)
    assert read_as_partition(log, 0, limit=1) is None
