"""Every file beside the records of a log with bits flipped, or cut, and then opened. Invariant: opening succeeds, and
every record can be read: these files only say where records are, and which. A `partition.metadata` that cannot be is
refused by its name.
"""

import pytest

from tests.log.support import FOLDER, NOW, batch, flush, open_log, options, read_batches, sim_disk
from tests.log.test_transactions import end, send
from tidelog.errors import CorruptLog
from tidelog.log import names

CONFIG = options(internal_segment_bytes=500, index_interval_bytes=0)
PRODUCER = 1


def stopped():
    """The files of a log with several segments, transactions and epochs; what it holds, and its end."""
    disk = sim_disk()
    log = open_log(disk, CONFIG)
    for number in range(5):
        send(log, PRODUCER)
        log.append_as_leader(batch(b"v%d" % number), 0, NOW)
        end(log, PRODUCER, commit=number % 2 == 0)
    held = read_batches(log)
    flush(log)
    log.close()
    return {name: disk.read(f"{FOLDER}/{name}") for name in disk.list(FOLDER)}, held, log.log_end_offset


FILES, HELD, END = stopped()
BESIDE = sorted(name for name in FILES if not name.endswith(names.LOG))


def check(name, content, clean):
    disk = sim_disk()
    disk.make_folder(FOLDER)
    for each, whole in FILES.items():
        disk.replace(f"{FOLDER}/{each}", content if each == name else whole)
    try:
        log = open_log(disk, CONFIG, recovery_point=END, clean=clean)
    except CorruptLog as refusal:
        reason = str(refusal)
    else:
        assert read_batches(log) == HELD
        assert log.log_end_offset == END
        log.check_invariants()
        return
    assert name == "partition.metadata"  # whose log this is: nothing else says so
    assert name in reason


def spoiled(name, bits):
    whole = FILES[name]
    for position in range(len(whole)):
        yield whole[:position]
        for bit in bits:
            changed = bytearray(whole)
            changed[position] ^= 1 << bit
            yield bytes(changed)


def test_the_log_has_files_of_every_kind():
    kinds = {name.rpartition(".")[2] for name in BESIDE}
    assert kinds == {"index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "metadata"}


@pytest.mark.parametrize("name", [name for name in BESIDE if name.endswith(names.INDEX)][:2])
def test_records_are_found_in_spite_of_a_rotten_index(name):
    """A fetch skipped the records before a wrong position, or found none where it was behind the end."""
    for content in spoiled(name, [0]):
        check(name, content, clean=True)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", BESIDE)
def test_every_byte_of_every_file(name, clean):
    for content in spoiled(name, [0, 3, 7]):
        check(name, content, clean)
