"""Record batches as Arrow columns, without Python code for each record.

A loop finds where each record begins, by its length; if neighbours have the same length, a whole run at once; and for
many small batches the first records of all, then the second ones, and so on. The rest is done for all records at once:
numbers with numpy, keys and values with Arrow, which copies them from the fetched buffer.
"""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.errors import ApiError, ErrorCode
from tidelog.wire import record_format

Numbers = NDArray[np.int64]
Bytes = NDArray[np.uint8]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RUN = 8
"""This many neighbours of equal length make it likely that more follow."""
LAST_SHIFT = 63
LANES = 64
"""This many batches in parallel are faster than one after another: one step of all takes as long as that many records
of one."""


class Batch(NamedTuple):
    """One batch's records in a payload: `count` records in bytes [start, end), and the bases of their deltas."""

    start: int
    end: int
    count: int  # type: ignore[assignment]  # a tuple's count is of no use here
    base_offset: int
    base_timestamp: int
    fixed_timestamp: int | None


class Slices(NamedTuple):
    """Fields in the buffer; an absent one has length 0."""

    starts: Numbers
    lengths: Numbers
    absent: NDArray[np.bool_]

    def only(self, chosen: NDArray[np.bool_]) -> "Slices":
        return Slices(self.starts[chosen], self.lengths[chosen], self.absent[chosen])


class Columns(NamedTuple):
    """The fields of records. `stamped` if the broker's time replaces the record's own; `headers_at` is the position of
    the header count."""

    offsets: Numbers
    timestamps: Numbers
    stamped: NDArray[np.bool_]
    keys: Slices
    values: Slices
    headers_at: Numbers
    ends: Numbers

    def only(self, chosen: NDArray[np.bool_]) -> "Columns":
        """The records for which the mask is true."""
        if chosen.all():
            return self
        numbers = (self.offsets[chosen], self.timestamps[chosen], self.stamped[chosen])
        places = (self.headers_at[chosen], self.ends[chosen])
        return Columns(*numbers, self.keys.only(chosen), self.values.only(chosen), *places)


def _refused(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, why)


def columns(data: bytes, batches: Sequence[Batch]) -> Columns:
    """All records of the batches, in order. ApiError INVALID_RECORD if they are malformed."""
    view = np.frombuffer(data, np.uint8)
    counts = np.array([batch.count for batch in batches], np.int64)
    try:
        begins, stops = _record_bounds(data, view, batches, counts)
        deltas, at = _numbers(view, begins + 1)
        times = deltas + np.repeat([batch.base_timestamp for batch in batches], counts)
        deltas, at = _numbers(view, at)
        offsets = deltas + np.repeat([batch.base_offset for batch in batches], counts)
        keys, at = _slices(view, at, stops)
        values, at = _slices(view, at, stops)
        if ((view[at] == 0) & (at + 1 != stops)).any():
            raise _refused("a record's fields and its length disagree")
    except IndexError:
        raise _refused("a record is cut off") from None
    stamped = np.repeat(np.array([batch.fixed_timestamp is not None for batch in batches], np.bool_), counts)
    if stamped.any():
        times = np.where(stamped, np.repeat([batch.fixed_timestamp or 0 for batch in batches], counts), times)
    return Columns(offsets, times, stamped, keys, values, at, stops)


def _record_bounds(data: bytes, view: Bytes, batches: Sequence[Batch], counts: Numbers) -> tuple[Numbers, Numbers]:
    """Where each record's body begins and ends. Short batches are scanned in parallel if there are enough of them; in a
    long one, runs of equal lengths are found at once."""
    if any(not 0 <= b.count <= (b.end - b.start) // record_format.MIN_RECORD_BYTES for b in batches):
        raise _refused("a batch has more records than bytes for them")
    place = np.cumsum(counts) - counts
    begins, stops = np.empty(counts.sum(), np.int64), np.empty(counts.sum(), np.int64)
    short = _parallel_batches(counts)
    if short.size:
        _scan_in_parallel(view, [batches[n] for n in short], place[short], begins, stops)
    apart = set(short.tolist())
    for number, batch in enumerate(batches):
        if number not in apart:
            first = int(place[number])
            _scan_batch(data, view, batch, begins[first : first + batch.count], stops[first : first + batch.count])
    return begins, stops


def _parallel_batches(counts: Numbers) -> NDArray[np.int64]:
    """The batches that are faster in parallel: as many of the shortest as possible whose total is at least LANES times
    their longest."""
    order = np.argsort(counts, kind="stable")
    enough = np.cumsum(counts[order]) >= LANES * np.maximum(counts[order], 1)
    longest = np.flatnonzero(enough)
    return order[: int(longest[-1]) + 1] if longest.size else order[:0]


def _scan_in_parallel(view: Bytes, batches: Sequence[Batch], place: Numbers, begins: Numbers, stops: Numbers) -> None:
    """The first records of all batches, then the second ones, …; a batch's records are stored from its `place` on."""
    counts = np.array([batch.count for batch in batches], np.int64)
    position = np.array([batch.start for batch in batches], np.int64)
    limit = np.array([batch.end for batch in batches], np.int64)
    order = np.argsort(-counts, kind="stable")
    position, limit, place = position[order], limit[order], place[order]
    remaining = np.searchsorted(-counts[order], -np.arange(counts.max(initial=0)), side="left")
    for step, active in enumerate(remaining):
        length, body = _numbers(view, position[:active])
        stop = body + length
        if (length < 0).any() or (stop > limit[:active]).any():
            raise _refused("a record is longer than its batch")
        begins[place[:active] + step] = body
        stops[place[:active] + step] = stop
        position[:active] = stop
    if (position != limit).any():
        raise _refused("bytes follow the last record of a batch")


def _numbers(view: Bytes, at: Numbers) -> tuple[Numbers, Numbers]:
    """The zigzag varints at these positions, and the positions behind them."""
    value = view[at].astype(np.int64)
    at = at + 1
    longer = np.flatnonzero(value & 0x80)
    if longer.size:
        value[longer] &= 0x7F
    shift = 7
    while longer.size:
        if shift > LAST_SHIFT:
            raise _refused("a number is too long")
        byte = view[at[longer]].astype(np.int64)
        value[longer] |= (byte & 0x7F) << shift
        at[longer] += 1
        longer = longer[byte >= 0x80]
        shift += 7
    return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), at


def _slices(view: Bytes, at: Numbers, stops: Numbers) -> tuple[Slices, Numbers]:
    lengths, at = _numbers(view, at)
    absent = lengths < 0
    lengths = np.where(absent, 0, lengths)
    after = at + lengths
    if (after > stops).any() or (after < at).any():
        raise _refused("a field is longer than its record")
    return Slices(at, lengths, absent), after


def _scan_batch(data: bytes, view: Bytes, batch: Batch, begins: Numbers, stops: Numbers) -> None:
    """The records of one batch, one after another except for runs."""
    position, limit, left = batch.start, batch.end, batch.count
    bodies, ends = array("q"), array("q")
    last = 0
    alike = 0
    while left:
        length = data[position]
        body = position + 1
        if length & 0x80:
            length &= 0x7F
            shift = 7
            while True:
                byte = data[body]
                body += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
        stop = body + (length >> 1)
        if length & 1 or stop > limit:
            raise _refused("a record is longer than its batch")
        bodies.append(body)
        ends.append(stop)
        left -= 1
        stride = stop - position
        alike = alike + 1 if stride == last else 0
        last = stride
        if alike >= RUN and left >= RUN:
            found = _run(view, position, body - position, stride, min(left, (limit - stop) // stride))
            if found:
                places = np.arange(1, found + 1, dtype=np.int64) * stride
                bodies.frombytes((places + body).tobytes())
                ends.frombytes((places + stop).tobytes())
                left -= found
                stop += found * stride
            alike = 0
        position = stop
    if position != limit:
        raise _refused(f"{limit - position} bytes follow the last record")
    begins[:], stops[:] = np.frombuffer(bodies, np.int64), np.frombuffer(ends, np.int64)


def _run(view: Bytes, position: int, size: int, stride: int, most: int) -> int:
    """How many records behind the one at `position` have its length, by comparing the length bytes at equal
    distances."""
    if most <= 0:
        return 0
    same = np.ones(most, np.bool_)
    for place in range(position, position + size):
        same &= view[place + stride : place + stride * most + 1 : stride] == view[place]
    return most if same.all() else int(np.argmin(same))


def binary_array(data: bytes | Bytes, slices: Slices) -> pa.Array:
    """The slices as a binary array: Arrow sees values and the gaps between them, and takes every second one."""
    count = len(slices.starts)
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[0:-1:2] = slices.starts
    bounds[1::2] = slices.starts + slices.lengths
    bounds[-1] = bounds[-2] if count else 0
    everything = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    whole = pa.Array.from_buffers(pa.binary(), 2 * count, everything)
    chosen = np.arange(0, 2 * count, 2, dtype=np.int64)
    return whole.take(pa.array(chosen, mask=slices.absent if slices.absent.any() else None))


def headers(data: bytes, found: Columns) -> pa.Array:
    """The headers of each record as a list of (key, value), null if there are none. Few records have headers, so those
    are read one by one."""
    counts, _ = _numbers(np.frombuffer(data, np.uint8), found.headers_at)
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    rows: list[list[dict[str, object]] | None] = [None] * len(counts)
    for row in np.flatnonzero(counts).tolist():
        listed = record_format.headers_at(data, int(found.headers_at[row]), int(found.ends[row]))
        rows[row] = [{"key": key, "value": value} for key, value in listed]
    return pa.array(rows, HEADERS)
