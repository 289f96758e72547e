"""Rule 6 and the epoch cache against brute force over the epoch of every single record (I18, I19)."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.epochs import EpochCache

RUNS = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=8)


def written(runs):
    """Epochs that ascend by the given steps and write so many records each, empty ones included."""
    cache, records, epoch = EpochCache(), [], 0
    for step, count in runs:
        epoch += step
        cache.assign(epoch, len(records))
        records += [epoch] * count
    return cache, records


@given(RUNS, st.integers(-1, 30))
def test_end_offset_equals_a_count_of_the_records(runs, asked):
    cache, records = written(runs)
    entries = list(cache)
    answer = cache.end_offset_for(asked, len(records))
    if not entries or asked < 0 or asked > entries[-1].epoch:
        assert answer == (-1, -1)
    elif asked == entries[-1].epoch:
        assert answer == (asked, len(records))
    else:
        epoch, end = answer
        assert end == sum(1 for record in records if record <= asked)
        assert epoch == max((e.epoch for e in entries if e.epoch <= asked), default=asked)


@given(RUNS, st.integers(0, 40))
def test_epoch_of_every_record(runs, offset):
    cache, records = written(runs)
    cache.check_invariants()
    assert [cache.epoch_at(number) for number in range(len(records))] == records
    cache.truncate_from_end(offset)
    kept = records[:offset]
    cache.check_invariants()
    assert [cache.epoch_at(number) for number in range(len(kept))] == kept
    assert all(entry.start_offset < max(offset, 1) or offset > len(records) for entry in cache)


@given(RUNS, st.integers(0, 40))
def test_what_the_start_passed_is_forgotten(runs, start):
    cache, records = written(runs)
    start = min(start, len(records))
    changed_from = list(cache)
    changed = cache.truncate_from_start(start)
    assert changed == (list(cache) != changed_from)
    cache.check_invariants()
    assert all(entry.start_offset >= start for entry in cache)
    assert [cache.epoch_at(number) for number in range(start, len(records))] == records[start:]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)), max_size=12))
def test_assigning_anything_leaves_a_cache_that_ascends(entries):
    cache = EpochCache()
    for epoch, start in entries:
        known = list(cache)
        changed = cache.assign(epoch, start)
        cache.check_invariants()
        assert changed == (list(cache) != known)
        assert cache.latest == epoch or not changed


def test_an_epoch_that_wrote_nothing_makes_room_for_the_next():
    cache = EpochCache([(1, 0), (2, 5)])
    assert cache.assign(3, 5)
    assert list(cache) == [(1, 0), (3, 5)]
    assert not cache.assign(3, 9)
    assert cache.earliest == (1, 0)
    assert cache.latest_entry == (3, 5)
    cache.clear()
    assert (len(cache), cache.latest, cache.earliest, cache.latest_entry) == (0, -1, None, None)
