"""Compacted topics: replicas that were compacted at different moments agree if the last value of each key does."""

from zlib import crc32

import pytest

from tests.audit.logs import NAME, audited, batch, found, segment, write_replica
from tests.log.support import NOW, WALL, after, open_log, options
from tests.log.test_compaction import clean
from tidelog.audit.core import finding
from tidelog.audit.core.acknowledged import Acknowledged
from tidelog.audit.core.keys import BUCKETS, LastValues, differing
from tidelog.audit.io import segment_files
from tidelog.log.checkpoints import META_PROPERTIES, MetaProperties, format_meta_properties
from tidelog.shell.disk import OsDisk
from tidelog.wire.records import TRANSACTIONAL, Marker, Record, build, build_marker

TOPIC = "t"


def one(base, key, value, epoch=0):
    return batch(base, epoch, value, key=key)


KEYS = [b"only" if number == 5 else b"k%d" % (number % 7) for number in range(30)]
WHOLE = [one(number, key, None if number == 20 else b"v%d" % number) for number, key in enumerate(KEYS)]


def compacted(content):
    """What is left of batches of one record once they are compacted, all but the last ten."""
    last = {key: place for place, key in enumerate(KEYS)}
    kept = [raw for place, raw in enumerate(content[:-10]) if last[KEYS[place]] == place]
    return kept + content[-10:]


def write(home, *replicas):
    for broker, content in enumerate(replicas):
        write_replica(home, broker, content)
    return audited(home, compacted=[TOPIC])


def kinds(report):
    return {each.kind for each in report.findings if each.is_broken}


def test_a_replica_that_is_compacted_agrees_with_one_that_is_not(tmp_path):
    report = write(tmp_path, WHOLE, compacted(WHOLE), WHOLE)
    assert kinds(report) == set()
    assert report.partitions[0].is_compacted


def test_the_same_folders_without_the_word_have_gaps(tmp_path):
    write(tmp_path, WHOLE, compacted(WHOLE))
    assert kinds(audited(tmp_path)) >= {finding.GAP}


def test_what_was_acknowledged_may_be_compacted_away(tmp_path):
    wanted = {NAME: [Acknowledged(number, crc32(b"v%d" % number)) for number in range(5)]}
    for broker in (0, 1):
        write_replica(tmp_path, broker, compacted(WHOLE))
    assert kinds(audited(tmp_path, compacted=[TOPIC], acknowledged=wanted)) == set()


def test_another_last_value_is_found_with_its_key(tmp_path):
    other = [*WHOLE]
    other[25] = one(25, b"k4", b"another")
    report = write(tmp_path, WHOLE, compacted(WHOLE), other)
    assert kinds(report) == {finding.KEYS}
    assert {each.sentence for each in report.findings} == {
        "key 'k4': broker 0 has a value at 25, broker 2 has a value at 25",
        "key 'k4': broker 1 has a value at 25, broker 2 has a value at 25",
    }


def test_a_lost_last_value_is_found(tmp_path):
    report = write(tmp_path, WHOLE, WHOLE[:24] + WHOLE[25:])
    assert {each.sentence for each in report.findings if each.kind == finding.KEYS} == {
        "key 'k3': broker 0 has a value at 24, broker 1 has a value at 17"
    }


def test_a_replica_that_is_behind_may_have_older_values(tmp_path):
    path = write_replica(tmp_path, 0, WHOLE)
    write_replica(tmp_path, 1, WHOLE[:22])
    assert path.exists()
    assert kinds(audited(tmp_path, compacted=[TOPIC])) == set()


def test_a_tombstone_and_nothing_are_the_same(tmp_path):
    gone = [one(0, b"a", b"1"), one(1, b"a", None), one(2, b"b", b"2")]
    assert kinds(write(tmp_path, gone, [gone[2]])) == set()
    assert kinds(write(tmp_path / "more", gone, [gone[0], gone[2]])) == {finding.KEYS}


def transactional(base, producer, *pairs):
    content = [Record(base + place, WALL, key, value) for place, (key, value) in enumerate(pairs)]
    return build(content, base_offset=base, leader_epoch=0, attributes=TRANSACTIONAL, producer_id=producer)


def marker(base, producer, *, committed):
    told = Marker(committed=committed, coordinator_epoch=0)
    return build_marker(told, timestamp=WALL, producer_id=producer, producer_epoch=0, base_offset=base, leader_epoch=0)


def lasts(*raws):
    found = LastValues()
    for raw in raws:
        found.on_batch(memoryview(raw), 0, 0)
    return {key: last.offset for key, last in found.keys.items()}


def test_what_an_aborted_transaction_wrote_is_no_value():
    first = one(0, b"a", b"old")
    written = transactional(1, 7, (b"a", b"new"), (b"b", b"x"))
    assert lasts(first, written, marker(3, 7, committed=False)) == {b"a": 0}
    assert lasts(first, written, marker(3, 7, committed=True)) == {b"a": 1, b"b": 2}
    assert lasts(first, written) == {b"a": 0}
    later = one(3, b"a", b"later")
    assert lasts(first, written, later, marker(4, 7, committed=True)) == {b"a": 3, b"b": 2}


def test_digests_differ_where_keys_do():
    one_side, other = LastValues(), LastValues()
    for number in range(100):
        one_side.on_batch(memoryview(one(number, b"k%d" % number, b"v")), 0, 0)
        other.on_batch(memoryview(one(number, b"k%d" % number, b"w" if number == 50 else b"v")), 0, 0)
    assert len(one_side.digests()) == BUCKETS
    buckets = differing({0: {100: one_side.digests()}, 1: {100: other.digests()}}, {0: 100, 1: 100})
    assert len(buckets) == 1
    (bucket,) = buckets
    assert b"k50" in one_side.of({bucket}).lasts


@pytest.mark.parametrize("times", [1, 2])
def test_a_log_that_is_really_compacted(tmp_path, times):
    """Tidelog's own cleaner on one of two replicas: delete horizons change its batches, and no value."""
    for broker in (0, 1):
        folder, disk = tmp_path / str(broker), OsDisk()
        config = options(segment_bytes=1_000, cleanup_policy="compact", min_cleanable_dirty_ratio=0)
        log = open_log(disk, config, folder=str(folder / str(NAME)))
        for number in range(100):
            value = None if number % 5 == 0 else b"v%d" % number
            log.append_as_leader(build([Record(0, WALL, b"k%d" % (number % 9), value)]), 1, NOW)
        for _ in range(times * broker):
            clean(disk, log, after(1_000))
        log.close()
        meta = format_meta_properties(MetaProperties("c", broker))
        (folder / META_PROPERTIES).write_bytes(meta)
    report = audited(tmp_path, compacted=[TOPIC])
    assert kinds(report) == set(), found(report)
    sizes = [each.bytes for each in report.partitions[0].replicas]
    assert sizes[1] < sizes[0]


def test_a_replica_that_was_read_to_within_a_transaction_contradicts_nobody(tmp_path):
    """One is read a moment after the other: by then the transaction has ended."""
    sooner = [one(0, b"a", b"old"), transactional(1, 7, (b"a", b"new"), (b"b", b"x"))]
    assert kinds(write(tmp_path / "ended", sooner, [*sooner, marker(3, 7, committed=True)])) == set()
    apart = [sooner[0], transactional(1, 8, (b"c", b"y"), (b"b", b"x"))]
    assert kinds(write(tmp_path / "apart", apart, [*sooner, marker(3, 7, committed=True)])) == {finding.KEYS}


def test_a_replica_of_which_a_part_cannot_be_read_contradicts_nobody(tmp_path, monkeypatch):
    paths = [write_replica(tmp_path, broker, WHOLE) for broker in (0, 1)]
    hidden, read = str(segment(paths[1], 1)), segment_files.read_segment

    def refuses(file, *others, **more):
        if file == hidden:
            raise OSError(5, "Input/output error", file)
        return read(file, *others, **more)

    monkeypatch.setattr(segment_files, "read_segment", refuses)
    assert {each.kind for each in audited(tmp_path, compacted=[TOPIC]).findings} == {finding.UNREADABLE}
