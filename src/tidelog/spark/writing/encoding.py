"""Rows as records, all of a batch at once: numbers with numpy, and Arrow joins the parts of every record.

length · attributes 0 · time 0 · offset · key length · key · value length · value · headers
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

RECORD_OVERHEAD_BYTES = 21
"""Upper bound of a record's length, attributes, deltas and field lengths, without headers."""
_WIDEST = 5
_ABSENT = -1
_BINARY = pa.binary()
_NO_HEADERS = b"\x00"


class Rows(NamedTuple):
    """Columns of equal length without offsets: binary keys (None without such a column) and values, and encoded headers
    (None if no record has any)."""

    keys: pa.Array | None
    values: pa.Array
    headers: pa.Array | None

    def taken(self, order: Numbers) -> "Rows":
        chosen = pa.array(order)
        return Rows(*(None if column is None else column.take(chosen) for column in self))

    @property
    def sizes(self) -> Numbers:
        """An upper bound of each record's bytes."""
        total = np.full(len(self.values), RECORD_OVERHEAD_BYTES, np.int64)
        for column in self:
            if column is not None:
                total += lengths(column)
        return total


class Payload(NamedTuple):
    """Records one after another; record `i` is in bytes [bounds[i], bounds[i + 1])."""

    data: memoryview
    bounds: NDArray[np.int32]


def lengths(column: pa.Array) -> Numbers:
    """The bytes of each, 0 if it is null."""
    return np.asarray(pc.fill_null(pc.binary_length(column), 0)).astype(np.int64)


def binary(column: pa.Array) -> pa.Array:
    """Text or bytes as bytes, with 32-bit offsets."""
    return column if column.type == _BINARY else column.cast(_BINARY)


def payload(rows: Rows, deltas: Numbers) -> Payload:
    """The records of the rows; `deltas` are their offsets within their batches."""
    count = len(rows.values)
    key_lengths = _field_lengths(rows.keys, count)
    value_lengths = _field_lengths(rows.values, count)
    key_marks, value_marks, delta_marks = _Varints(key_lengths), _Varints(value_lengths), _Varints(deltas)
    headers = lengths(rows.headers) if rows.headers is not None else 1
    body = 2 + delta_marks.sizes + key_marks.sizes + value_marks.sizes + headers
    body += np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    zeros = _Plain(np.zeros((count, 2), np.uint8))
    head = _joined([_Varints(body), zeros, delta_marks, key_marks])
    middle = _joined([value_marks])
    keys = [] if rows.keys is None else [rows.keys]
    tail = pa.scalar(_NO_HEADERS, _BINARY) if rows.headers is None else rows.headers
    pieces = [head, *keys, middle, rows.values, tail, pa.scalar(b"", _BINARY)]
    joined = pc.binary_join_element_wise(*pieces, null_handling="replace", null_replacement="")
    _, offsets, data = joined.buffers()
    return Payload(memoryview(data), np.frombuffer(offsets, np.int32, count + 1))


def headers(column: pa.Array) -> pa.Array | None:
    """Encoded headers of an array of (key, value) lists; None if no record has any. ValueError for a header without a
    key."""
    counts = np.asarray(pc.fill_null(pc.list_value_length(column), 0)).astype(np.int64)
    if not counts.any():
        return None
    entries = column.flatten()  # nulls and what an offset hides are left out
    keys, values = binary(entries.field(0)), binary(entries.field(1))
    if keys.null_count or entries.null_count:
        raise ValueError("a header has no key; null header keys are not permitted")
    key_marks = _joined([_Varints(lengths(keys))])
    value_marks = _joined([_Varints(_field_lengths(values, len(values)))])
    each = [key_marks, keys, value_marks, values, pa.scalar(b"", _BINARY)]
    joined = pc.binary_join_element_wise(*each, null_handling="replace", null_replacement="")
    _, bounds, data = joined.buffers()
    ends = np.frombuffer(bounds, np.int32, len(entries) + 1)[np.concatenate(([0], np.cumsum(counts)))]
    listed = pa.Array.from_buffers(_BINARY, len(counts), [None, pa.py_buffer(ends.astype(np.int32)), data])
    return pc.binary_join_element_wise(_joined([_Varints(counts)]), listed, pa.scalar(b"", _BINARY))


class _Plain:
    """The same number of bytes for every row."""

    def __init__(self, matrix: NDArray[np.uint8]) -> None:
        self.matrix = matrix
        self.sizes: Numbers = np.full(len(matrix), matrix.shape[1], np.int64)


class _Varints:
    """Zig-zag variable-length numbers of up to 34 bits, a row each of `matrix`."""

    def __init__(self, values: Numbers) -> None:
        rest = ((values << 1) ^ (values >> 63)).astype(np.uint64)
        highest = int(rest.max(initial=0))
        width = next(bytes_ for bytes_ in range(1, _WIDEST + 1) if highest < 1 << 7 * bytes_)
        self.sizes: Numbers = np.ones(len(values), np.int64)
        self.matrix: NDArray[np.uint8] = np.empty((len(values), width), np.uint8)
        for place in range(width):
            longer = rest >= 0x80
            self.matrix[:, place] = (rest & np.uint64(0x7F)) | (longer.astype(np.uint64) << np.uint64(7))
            rest = rest >> np.uint64(7)
            if place + 1 < width:
                self.sizes += longer


def _joined(parts: list["_Varints | _Plain"]) -> pa.Array:
    """The parts of each row, concatenated."""
    matrix = np.concatenate([part.matrix for part in parts], axis=1)
    total = np.sum([part.sizes for part in parts], axis=0)
    bounds = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(total, out=bounds[1:])
    if bounds[-1] != matrix.size:
        kept = [np.arange(part.matrix.shape[1])[None, :] < part.sizes[:, None] for part in parts]
        data = matrix[np.concatenate(kept, axis=1)]
    else:
        data = matrix.reshape(-1)
    return pa.Array.from_buffers(_BINARY, len(matrix), [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _field_lengths(column: pa.Array | None, count: int) -> Numbers:
    """The bytes of each, -1 if it is null."""
    if column is None:
        return np.full(count, _ABSENT, np.int64)
    return np.asarray(pc.fill_null(pc.binary_length(column), _ABSENT)).astype(np.int64)
