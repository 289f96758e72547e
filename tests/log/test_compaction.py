"""Compaction against what it promises: the last record of every key stays where it was, and nothing else is lost that
a reader could miss; and after a crash at any point the log is the old one or the new one."""

from functools import partial
from itertools import islice
from random import Random

import pytest

from tests.log.support import FOLDER, NOW, WALL, after, flush, open_log, options, read_batches, sim_disk
from tidelog.effects import carried_out
from tidelog.errors import CorruptLog
from tidelog.log import names
from tidelog.log.compaction import survivors
from tidelog.log.compaction.candidates import candidate
from tidelog.log.compaction.compactor import compact
from tidelog.log.compaction.offset_map import OffsetMap
from tidelog.log.compaction.steps import Call, Flush, Unneeded
from tidelog.log.compaction.survivors import RECORDS_PER_STEP, PassedTransactions, RetentionRules, emptied
from tidelog.log.reading import aborted
from tidelog.log.segments import Refetched
from tidelog.sim.disk import PowerCut
from tidelog.wire.records import NO_TIMESTAMP, Marker, Record, build, build_marker, header, payload_of, records

COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": 2_000,
    "delete_retention_ms": 1_000,
    "index_interval_bytes": 200,
}
MEMORY = 1 << 20


def passing(log, now=NOW, memory=MEMORY):
    return compact(candidate(log, log.log_end_offset, now.wall), now.wall, memory)


def carry_out(disk, steps, calls=None):
    """Do what the node would; what the pass came to."""
    result = None
    while True:
        try:
            step, result = steps.send(result), None
        except StopIteration as end:
            return end.value
        if isinstance(step, Call):
            result = carried_out(step.function, step.arguments)
            if calls is not None:
                calls.append(step)
        elif isinstance(step, Flush):
            for file in step.files:
                file.sync()
        elif isinstance(step, Unneeded):
            for path in step.paths:
                disk.remove(path)


def clean(disk, log, now=NOW, memory=MEMORY):
    return carry_out(disk, passing(log, now, memory))


def add(log, *pairs, timestamp=WALL, **fields):
    data = build([Record(0, timestamp, key, value) for key, value in pairs], **fields)
    return log.append_as_leader(data, 1, NOW)


def fill(log, random, rounds=60, keys=12, tombstones=0.2):
    for _ in range(rounds):
        pairs = []
        for _ in range(random.randint(1, 5)):
            value = None if random.random() < tombstones else bytes([random.randrange(256)]) * random.randint(1, 60)
            pairs.append((b"key-%d" % random.randrange(keys), value))
        add(log, *pairs)


def content(log):
    """{offset: (key, value)} of all data."""
    found = {}
    for data in read_batches(log):
        if not header(data).is_control:
            found |= {r.offset: (r.key, r.value) for r in records(data) if r.offset >= log.log_start_offset}
    return found


def known(found):
    """What a reader knows of each key in the end."""
    last = {key: value for _, (key, value) in sorted(found.items())}
    return {key: value for key, value in last.items() if value is not None}


@pytest.mark.parametrize("seed", range(20))
def test_the_last_record_of_every_key_stays_where_it_was(seed):
    random, disk = Random(seed), sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, random)
    before, end = content(log), log.log_end_offset
    boundary = log.segments.active.base_offset
    result = clean(disk, log)
    found = content(log)
    assert log.log_end_offset == end
    assert result.end == boundary == log.cleaned_to
    assert found.items() <= before.items(), "nothing is new, and nothing has moved"
    newest = {key: offset for offset, (key, _) in sorted(before.items()) if offset < boundary}
    expected = {o: pair for o, pair in before.items() if o >= boundary or newest[pair[0]] == o}
    assert found == expected
    log.check_invariants()
    log.close()
    again = open_log(disk, options(**COMPACTED), clean=True, recovery_point=end)
    assert content(again) == found


def test_small_segments_become_one():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(1), rounds=200, keys=4)
    many = len(log.segments)
    clean(disk, log)
    clean(disk, log)
    assert len(log.segments) < many / 2
    assert known(content(log))


def test_where_everything_stays_segments_are_as_full_as_before():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    for number in range(100):
        add(log, (b"key-%d" % number, b"v"))
    before = [segment.size for segment in log.segments]
    assert len(before) > 3
    clean(disk, log)
    assert [segment.size for segment in log.segments] == before


def test_an_offset_map_is_full_of_keys_and_not_of_records():
    known = OffsetMap(MEMORY)
    room = known._room
    known.put_all([b"k"] * room, range(room), 0, 0)
    assert not known.is_full
    keys = [b"%d" % number for number in range(room)]
    known.put_all(keys, range(room), room, 0)
    assert known.is_full


def test_a_tombstone_goes_after_its_horizon_and_not_before():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    add(log, (b"a", b"1"), (b"b", b"2"))
    add(log, (b"a", None))
    log.roll(NOW)
    add(log, (b"c", b"3"))
    clean(disk, log)
    assert content(log) == {1: (b"b", b"2"), 2: (b"a", None), 3: (b"c", b"3")}
    times = [record.timestamp for data in read_batches(log) for record in records(data)]
    assert times == [WALL] * 3, "the horizon changes no record's time"
    log.cleaned_to = 0
    clean(disk, log, after(999))
    assert 2 in content(log)
    log.cleaned_to = 0
    clean(disk, log, after(1_000))
    assert content(log) == {1: (b"b", b"2"), 3: (b"c", b"3")}


def test_the_last_batch_of_a_producer_stays_though_empty_so_that_its_sequence_is_known():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    add(log, (b"a", b"1"), producer_id=9, producer_epoch=0, base_sequence=0)
    log.roll(NOW)
    add(log, (b"a", b"2"))
    log.roll(NOW)
    add(log, (b"z", b"3"))
    clean(disk, log)
    first = header(read_batches(log)[0])
    assert (first.producer_id, first.count, first.last_sequence) == (9, 0, 0)
    log.close(clean=False)
    for name in [name for name in disk.list(FOLDER) if name.endswith(".snapshot")]:
        disk.remove(f"{FOLDER}/{name}")
    again = open_log(disk, options(**COMPACTED))
    assert again.producers.get(9).last_sequence == 0


def test_an_emptied_batch_is_no_record_with_the_latest_timestamp():
    """Its header still tells of the time; recovery, which reads headers, knows no better than compaction did."""
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    add(log, (b"a", b"1"), timestamp=WALL + 500, producer_id=9, producer_epoch=0, base_sequence=0)
    add(log, (b"b", b"2"), timestamp=WALL + 100)
    add(log, (b"a", b"3"))
    log.roll(NOW)
    add(log, (b"z", b"4"))
    clean(disk, log)
    assert header(read_batches(log)[0]).count == 0
    assert log.max_timestamp_offset() == (WALL + 100, 1, 1)
    log.close(clean=False)
    assert open_log(disk, options(**COMPACTED)).max_timestamp_offset() == (WALL + 100, 1, 1)


def test_an_emptied_batch_gives_its_segment_no_timestamp():
    """Retention by time goes by the segment's latest one; 0 would be the year 1970."""
    batch = header(build([Record(0, WALL, b"a", b"1")], producer_id=9, producer_epoch=0, base_sequence=0))
    left = emptied(batch)
    assert left.max_timestamp == NO_TIMESTAMP
    assert (header(left.data).count, header(left.data).max_timestamp) == (0, WALL)


def markers(log):
    found = [header(data) for data in read_batches(log)]
    return [batch.base_offset for batch in found if batch.is_control and batch.count]


def transaction(log, producer_id, committed, *pairs, base_sequence=0):
    add(log, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence, attributes=0x10)
    marker = build_marker(Marker(committed, 1), timestamp=WALL, producer_id=producer_id, producer_epoch=0)
    log.append_as_leader(marker, 1, NOW, from_client=False)


def test_aborted_data_goes_first_and_its_marker_only_after_a_horizon():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    transaction(log, 1, True, (b"a", b"old"), (b"b", b"1"))
    transaction(log, 2, False, (b"a", b"never"))
    log.roll(NOW)
    add(log, (b"z", b"3"))
    assert len(aborted(log.segments, 0, 5)) == 1
    clean(disk, log)
    # Producer 2's batch is the last that is known of it: it stays, without its record.
    assert content(log) == {0: (b"a", b"old"), 1: (b"b", b"1"), 5: (b"z", b"3")}
    controls = markers(log)
    assert controls == [2, 4]
    found = {batch.base_offset: batch for batch in map(header, read_batches(log))}
    assert not found[2].has_delete_horizon, "its transaction has records left"
    assert len(aborted(log.segments, 0, 5)) == 1, "its marker still tells what it ended"
    log.producers.expire(WALL + 10**9, 1)
    for moment in (after(1), after(2), after(5_000)):
        log.cleaned_to = 0
        clean(disk, log, moment)
    controls = markers(log)
    assert controls == [2], "the marker of the aborted one is gone, the committed one has records left"
    assert aborted(log.segments, 0, 5) == []
    assert content(log) == {0: (b"a", b"old"), 1: (b"b", b"1"), 5: (b"z", b"3")}


def test_an_aborted_transaction_that_ended_before_the_dirty_part_says_nothing_of_its_producers_next_one():
    """Its marker is not met again. Seed 8800077: the next one, which was committed, was taken for aborted."""
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    transaction(log, 2, False, (b"a", b"never"))
    log.cleaned_to = log.log_end_offset
    transaction(log, 2, True, (b"b", b"2"), base_sequence=1)
    add(log, (b"a", b"1"), (b"b", b"3"), (b"b", b"4"), (b"c", b"5"))
    log.roll(NOW)
    add(log, (b"z", b"6"))
    clean(disk, log)
    assert content(log) == {4: (b"a", b"1"), 6: (b"b", b"4"), 7: (b"c", b"5"), 8: (b"z", b"6")}


@pytest.mark.parametrize("before", [(b"a", b"never"), None])
def test_an_aborted_transaction_without_a_marker_says_nothing_of_its_producers_next_one(before):
    """Old versions replaced a damaged marker by nothing."""
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    transaction(log, 2, False, (b"a", b"never"))
    transaction(log, 2, True, (b"b", b"committed"), base_sequence=1)
    transaction(log, 2, False, (b"c", b"never"), base_sequence=2)
    log.roll(NOW)
    add(log, (b"z", b"6"))
    segment = log.segments[0]
    gone = [segment.locate(offset) for offset in ([1] if before else [0, 1])]
    for at in gone:
        log.segments.refetched[segment, at.position] = Refetched(log.removals, at.length, b"")
    clean(disk, log)
    assert content(log) == {2: (b"b", b"committed"), 6: (b"z", b"6")}
    assert markers(log) == [3, 5]
    assert [entry.first_offset for entry in aborted(log.segments, 0, 6)] == [4]


def test_of_a_committed_transaction_behind_an_aborted_one_the_last_record_of_a_key_stays():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    transaction(log, 2, False, (b"a", b"never"))
    log.cleaned_to = log.log_end_offset
    transaction(log, 2, True, (b"b", b"2"), base_sequence=1)
    log.roll(NOW)
    add(log, (b"z", b"6"))
    clean(disk, log)
    assert content(log)[2] == (b"b", b"2")


def test_what_was_passed_over_or_never_looked_at_stays():
    newest = OffsetMap(MEMORY)
    newest.put_all([b"a", b"b", None, b"a"], [0, 1, 2, 3], 10, 11)
    newest.pass_over(14, 16)
    newest.end = 16
    before = newest.staying([b"a", b"b", None, b"a"], [0, 1, 2, 3], 10)
    assert list(newest.mark(11)) != []
    assert newest.staying([b"a", b"b", None, b"a"], [0, 1, 2, 3], 10) == before == [1, 3], "the batch begins below"
    assert newest.staying([b"b", None, b"a"], [0, 1, 2], 11) == [0, 2]
    assert newest.staying([b"a", b"a", b"a"], [0, 1, 2], 14) == [0, 1, 2]
    assert newest.staying([b"a", b"q", None], [0, 1, 2], 16) == [0, 1, 2]


def test_what_is_left_of_a_marker_is_no_record_of_the_producers_next_transaction():
    marker = build_marker(Marker(True, 1), timestamp=WALL, producer_id=1, producer_epoch=0)
    left = emptied(header(marker)).data
    rules = RetentionRules(OffsetMap(MEMORY), PassedTransactions(), {}, WALL, 1_000)
    assert carry_out(None, rules.survivor(memoryview(left), header(left))) is None
    kept = carry_out(None, rules.survivor(memoryview(marker), header(marker)))
    assert header(kept.data).has_delete_horizon


def test_a_large_batch_gets_its_horizon_in_small_steps():
    data = build([Record(0, WALL, b"%d" % number, None) for number in range(7_000)])
    rules = RetentionRules(OffsetMap(MEMORY), PassedTransactions(), {}, WALL, 1_000)
    steps = list(rules.survivor(memoryview(data), header(data)))
    assert len(steps) == 2 * (7_000 // RECORDS_PER_STEP), "half of them to look at the records, half to write them"


def test_a_log_larger_than_the_memory_for_keys_is_cleaned_in_several_passes():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3), rounds=300, keys=200, tombstones=0)
    before = known(content(log))
    ends = []
    while candidate(log, log.log_end_offset, WALL).dirty_bytes:
        ends.append(clean(disk, log, memory=128 * 40).end)
        assert known(content(log)) == before
    assert len(ends) > 2
    assert ends == sorted(set(ends))


def test_recovery_without_any_checkpoint_takes_the_holes_that_compaction_left():
    """A folder of Kafka's may have them between segments, too; and a segment that lost its end has none inside."""
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(5), rounds=200)
    clean(disk, log)
    before = content(log)
    disk.kill()
    assert content(open_log(disk, options(**COMPACTED))) == before


def test_what_is_not_stable_or_too_young_is_not_touched():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED, min_compaction_lag_ms=5_000))
    fill(log, Random(3))
    assert candidate(log, log.log_end_offset, WALL + 4_999).dirty_bytes == 0
    old = candidate(log, log.log_end_offset, WALL + 5_001)
    assert old.end == log.segments.active.base_offset
    unstable = log.segments[2].base_offset + 1
    assert candidate(log, unstable, WALL + 5_001).end == log.segments[2].base_offset


def test_a_log_becomes_a_candidate_by_its_dirty_share_or_by_age():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=10_000))
    fill(log, Random(3))
    log.cleaned_to = log.segments[3].base_offset
    assert not candidate(log, log.log_end_offset, WALL).is_cleanable
    assert candidate(log, log.log_end_offset, WALL + 10_001).is_cleanable
    log.cleaned_to = 0
    assert candidate(log, log.log_end_offset, WALL).is_cleanable


def test_damage_is_reported_and_changes_nothing():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3))
    before = sorted(disk.list(FOLDER))
    file = log.segments[1].file
    file.write(70, bytes([file.read(70, 1)[0] ^ 1]))
    with pytest.raises(CorruptLog):
        clean(disk, log)
    left = [name for name in disk.list(FOLDER) if not name.endswith((".deleted", ".timeindex", ".index"))]
    assert [name for name in left if name.endswith((".cleaned", ".swap"))] == []
    assert [name for name in before if name.endswith(".log")] == [name for name in left if name.endswith(".log")]


@pytest.mark.parametrize("stop", range(0, 60, 3))
def test_a_truncation_in_the_middle_of_a_pass_wins(stop):
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3))
    before, at = content(log), log.segments[2].base_offset + 1
    steps, over = passing(log), False
    for _ in range(stop):
        try:
            step = next(steps)
        except StopIteration:
            over = True
            break
        if isinstance(step, Flush):
            for file in step.files:
                file.sync()
    log.truncate_to(at)
    end = log.log_end_offset
    if not over:
        carry_out(disk, steps)
    assert log.log_end_offset == end <= at
    assert content(log).items() <= {o: pair for o, pair in before.items() if o < end}.items()
    add(log, (b"new", b"x"))
    log.check_invariants()
    disk.kill()
    again = open_log(disk, options(**COMPACTED))
    assert content(again) == content(log)


@pytest.mark.parametrize("stop", range(1, 40, 3))
def test_a_pass_does_not_look_for_files_of_segments_that_were_cut_off(stop):
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3))
    steps = passing(log)
    assert len(list(islice(steps, stop))) == stop
    log.truncate_to(1)
    for name in disk.list(FOLDER):
        if name.endswith(names.DELETED):
            disk.remove(f"{FOLDER}/{name}")
    assert carry_out(disk, steps) is None


def test_segments_have_their_names_for_good_before_records_behind_them_go():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3))
    log.segments[0].rename(names.SWAP)
    flush(log)
    disk.sync_folder(FOLDER)
    log.truncate_to(log.log_end_offset - 1)
    assert log.segments[0].suffix == ""
    assert [change for change in disk.pending if change[0].startswith("rename")] == []


@pytest.mark.parametrize("at", [0, 30, 100])
@pytest.mark.parametrize("power", [False, True])
def test_a_truncation_while_files_are_exchanged_wins_and_what_it_cut_is_dirty_again(at, power):
    """At every step since the first file was renamed, with no sync ended; recovery must not exchange them once more."""
    exchange = 0
    while True:
        disk = sim_disk(exchange)
        log = open_log(disk, options(**COMPACTED))
        fill(log, Random(3))
        flush(log)
        steps = passing(log)
        while not log.replacing:
            next(steps)
        is_over = len(list(islice(steps, exchange))) < exchange
        log.truncate_to(at)
        end, held = log.log_end_offset, content(log)
        if not (is_over or power):
            carry_out(disk, steps)
            assert content(log) == held
        assert log.cleaned_to <= end
        add(log, (b"new", b"x"))
        held, recovery_point = content(log), min(end, flush(log))
        if power:
            disk.lose_power()
        else:
            disk.kill()
        assert content(open_log(disk, options(**COMPACTED), recovery_point=recovery_point)) == held, exchange
        if is_over:
            return
        exchange += 1


def test_a_truncation_removes_the_new_files_of_an_exchange():
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(3))
    steps = passing(log)
    while not log.replacing:
        next(steps)
    assert [name for name in disk.list(FOLDER) if name.endswith(names.SWAP)]
    log.truncate_to(0)
    assert not [name for name in disk.list(FOLDER) if name.endswith(names.SWAP)]
    assert carry_out(disk, steps) is None, "they do not replace what is appended from now on"
    assert log.log_end_offset == 0
    log.check_invariants()


def test_a_log_that_is_deleted_at_any_step_is_let_go():
    stop, is_over = 1, False
    while not is_over:
        disk = sim_disk(stop)
        log = open_log(disk, options(**COMPACTED))
        fill(log, Random(3))
        steps = passing(log)
        is_over = len(list(islice(steps, stop))) < stop
        log.retire("t-0.id-delete")
        assert carry_out(disk, steps) is None
        assert not disk.exists(FOLDER)
        stop += 3 if stop < 60 else 1


@pytest.mark.parametrize("seed", range(4))
def test_recovery_takes_the_holes_between_segments_that_were_split(seed):
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    fill(log, Random(seed), keys=30)
    log.config = options(**{**COMPACTED, "segment_bytes": 300})
    clean(disk, log)
    before = content(log)
    disk.kill()
    assert content(open_log(disk, options(**COMPACTED))) == before


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("segment_bytes", [2_000, 500])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_any_operation_leaves_the_old_log_or_the_new_one(seed, segment_bytes, power):
    crash = 0
    while True:
        disk = sim_disk(seed)
        config = options(**COMPACTED)
        log = open_log(disk, config)
        fill(log, Random(seed), rounds=30)
        log.close()
        log = open_log(disk, config, clean=True, recovery_point=log.log_end_offset)
        log.config = options(**{**COMPACTED, "segment_bytes": segment_bytes})
        before, end, boundary = content(log), log.log_end_offset, log.segments.active.base_offset
        newest = {key: offset for offset, (key, _) in sorted(before.items()) if offset < boundary}
        needed = {o: pair for o, pair in before.items() if o >= boundary or newest[pair[0]] == o}
        disk.operations_left = crash
        try:
            clean(disk, log)
            survived = True
        except PowerCut:
            survived = False
        disk.operations_left = None
        if power:
            disk.lose_power()
        else:
            disk.kill()
        again = open_log(disk, config, recovery_point=end)
        found = content(again)
        assert needed.items() <= found.items() <= before.items(), crash
        assert again.log_end_offset == end
        again.check_invariants()
        assert not [name for name in disk.list(FOLDER) if name.endswith((".swap", ".cleaned"))]
        if survived:
            return
        crash += 1


@pytest.mark.parametrize("kind", [1, 4])
def test_large_batches_are_decompressed_and_compressed_again_off_the_loop(kind):
    """Each inflates a few hundred bytes to a quarter of a megabyte."""
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    for number in range(4):
        pairs = [(b"%d" % key, b"%d" % number + bytes(60_000)) for key in range(3 + 2 * (number < 2))]
        pairs.append((b"gone", None))
        log.append_as_follower(
            build([Record(0, WALL, *pair) for pair in pairs], base_offset=log.log_end_offset, compression=kind), NOW
        )
        log.roll(NOW)
    add(log, (b"last", b"one"))
    flush(log)
    calls = []
    result = carry_out(disk, passing(log), calls)
    assert result is not None
    assert {call.function.__name__ for call in calls if hasattr(call.function, "__name__")} == {
        "payload_of",
        "rebuild",
    }
    left = [(record.key, (record.value or b"")[:1]) for data in read_batches(log) for record in records(data)]
    assert left == [
        (b"3", b"1"),
        (b"4", b"1"),
        (b"0", b"3"),
        (b"1", b"3"),
        (b"2", b"3"),
        (b"gone", b""),
        (b"last", b"o"),
    ]


def test_a_batch_that_inflates_beyond_all_bounds_makes_its_log_uncleanable(monkeypatch):
    monkeypatch.setattr(survivors, "payload_of", partial(payload_of, limit=100_000))
    disk = sim_disk()
    log = open_log(disk, options(**COMPACTED))
    log.append_as_follower(build([Record(0, WALL, b"k", bytes(300_000))], compression=4), NOW)
    log.roll(NOW)
    add(log, (b"last", b"one"))
    flush(log)
    with pytest.raises(CorruptLog, match="decompresses to more than"):
        carry_out(disk, passing(log))
