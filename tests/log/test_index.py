"""The indexes against a list that is searched from end to end."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.index import OffsetIndex, TimeIndex

BASE = 1_000
GAPS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=40)


def ascending(gaps):
    first, second, entries = BASE - 1, -1, []
    for step, other in gaps:
        first, second = first + step, second + other
        entries.append((first, second))
    return entries


@given(GAPS, st.integers(BASE - 5, BASE + 2_100))
def test_offset_lookups_equal_a_search_of_the_list(gaps, offset):
    entries = ascending(gaps)
    index = OffsetIndex(BASE)
    for entry in entries:
        index.append(*entry)
    assert [index.entry(number) for number in range(len(index))] == entries
    assert index.last == (entries[-1] if entries else None)
    assert index.floor(offset) == max((p for o, p in entries if o <= offset), default=0)
    reloaded = OffsetIndex(BASE, bytes(index.content))
    reloaded.truncate(offset)
    assert [reloaded.entry(number) for number in range(len(reloaded))] == [e for e in entries if e[0] < offset]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=40), st.integers(-5, 70))
def test_time_lookups_equal_a_search_of_the_list(records, timestamp):
    index, entries, latest, offset = TimeIndex(BASE), [], -1, BASE
    for time, step in records:
        offset += step
        assert index.maybe_append(time, offset) == (time > latest)
        if time > latest:
            entries.append((time, offset))
            latest = time
    assert [index.entry(number) for number in range(len(index))] == entries
    assert index.floor(timestamp) == max((entry for entry in entries if entry[0] <= timestamp), default=None)
    index.truncate(offset)
    assert [index.entry(number) for number in range(len(index))] == [e for e in entries if e[1] < offset]


def test_entries_are_kafkas_bytes():
    offsets, times = OffsetIndex(BASE), TimeIndex(BASE)
    offsets.append(1_002, 77)
    times.maybe_append(5, 1_003)
    assert offsets.content.hex() == "00000002" + "0000004d"
    assert times.content.hex() == "0000000000000005" + "00000003"


def test_a_torn_or_foreign_index_is_not_sane():
    index = OffsetIndex(BASE)
    index.append(1_002, 77)
    assert index.is_sane(log_bytes=100)
    assert not index.is_sane(log_bytes=77)
    assert not OffsetIndex(BASE, index.content[:-1]).is_sane(100)
    assert not OffsetIndex(BASE, bytes.fromhex("ffffffff0000004d")).is_sane(100)
    assert not TimeIndex(BASE, b"123").is_sane()
    assert OffsetIndex(BASE).is_sane(0)
    assert TimeIndex(BASE).is_sane()
