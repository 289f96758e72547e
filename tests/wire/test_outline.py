"""Records by their places, and batches with fewer of them: what compaction reads and writes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ApiError
from tidelog.wire.record_format import outline
from tidelog.wire.records import Compression, Record, build, crc_holds, header, payload_of, rebuild, records

MOST = 7
"""Outlined at once."""

CONTENTS = st.lists(
    st.builds(
        Record,
        timestamp=st.integers(0, 2**40),
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.just(()) | st.just([("h", b"v"), ("i", None)]),
    ),
    min_size=1,
    max_size=20,
)


@given(CONTENTS, st.sampled_from(list(Compression)))
def test_an_outline_is_what_decoding_says(contents, compression):
    data = build(contents, base_offset=7, compression=compression)
    batch = header(data)
    payload = payload_of(data, batch)
    found = list(outline(payload, batch.count, MOST))
    decoded = list(records(data))
    assert [len(some) for some in found] == [len(decoded[at : at + MOST]) for at in range(0, len(decoded), MOST)]
    assert [key for some in found for key in some.keys] == [record.key for record in decoded]
    valued = [some.has_value(payload, number) for some in found for number in range(len(some))]
    assert valued == [record.value is not None for record in decoded]
    assert [7 + delta for some in found for delta in some.deltas] == [record.offset for record in decoded]
    times = [batch.base_timestamp + delta for some in found for delta in some.times]
    assert times == [record.timestamp for record in decoded]


@given(CONTENTS, st.sampled_from(list(Compression)), st.data())
def test_a_batch_rebuilt_with_fewer_records_has_those_as_they_were(contents, compression, data):
    whole = build(contents, base_offset=7, compression=compression, producer_id=3, producer_epoch=1, base_sequence=5)
    batch = header(whole)
    payload = payload_of(whole, batch)
    places = [place for some in outline(payload, batch.count, MOST) for place in pairwise(some.bounds)]
    kept = data.draw(st.sets(st.sampled_from(range(len(places)))))
    rest = b"".join(payload[start:end] for number, (start, end) in enumerate(places) if number in kept)
    rebuilt = rebuild(batch, rest, len(kept), batch.max_timestamp)
    assert crc_holds(rebuilt, header(rebuilt))
    assert list(records(rebuilt)) == [record for number, record in enumerate(records(whole)) if number in kept]
    after = header(rebuilt)
    assert (after.last_offset, after.producer_id, after.base_sequence) == (batch.last_offset, 3, 5)


@given(CONTENTS, st.data())
def test_bytes_that_are_no_records_are_refused(contents, data):
    whole = build(contents)
    batch = header(whole)
    payload = payload_of(whole, batch)
    short = payload[: data.draw(st.integers(0, len(payload) - 1))]
    with pytest.raises(ApiError):
        list(outline(short, batch.count, MOST))
