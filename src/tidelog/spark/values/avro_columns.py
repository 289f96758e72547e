"""Avro's binary encoding as Arrow columns, without Python code for each record.

All records of a batch are decoded at once, one field after the other: numpy computes where the field of each record
begins and ends, and Arrow copies strings and bytes. Where records differ, as in unions and arrays, the next step is for
those that have it.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.spark.reading.record_columns import Bytes, Numbers, Slices, binary_array
from tidelog.spark.values.avro_schema import Decimal, Enum, Fixed, Kind, List, Map, Primitive, Record, Union
from tidelog.spark.values.text import is_text

PAD = 24
"""Zeros behind the last record, where a field of a record that is cut off may be looked for."""
LAST_SHIFT = 63
DECIMAL_BYTES = 16
NO_ROWS = np.empty(0, np.int64)


def padded(data: bytes | memoryview) -> Bytes:
    """The bytes for `decode`."""
    return np.concatenate([np.frombuffer(data, np.uint8), np.zeros(PAD, np.uint8)])


def decode(kind: Record, view: Bytes, starts: Numbers, stops: Numbers) -> tuple[pa.StructArray, NDArray[np.bool_]]:
    """The records in these ranges of padded bytes, which are in order, and which of them are malformed: the values of
    those mean nothing."""
    decoder = _Decoder(view, starts.copy(), stops)
    found = decoder.array(kind, np.arange(len(starts), dtype=np.int64))
    return found, decoder.bad | (decoder.at != stops)


class _Decoder:
    """Where each record is read next (`at`, never behind its `stop`), and whether it is malformed. `rows` are the
    numbers of the records that have the field in question, in order."""

    def __init__(self, view: Bytes, at: Numbers, stop: Numbers) -> None:
        self.view, self.at, self.stop = view, at, stop
        self.bad = np.zeros(len(at), np.bool_)

    def array(self, kind: Kind, rows: Numbers) -> pa.Array:
        match kind:
            case Primitive():
                return self._primitive(kind, rows)
            case Record():
                arrays = [self.array(each, rows) for _, each in kind.fields]
                return pa.StructArray.from_arrays(arrays, fields=list(kind.arrow))
            case Union():
                return self._union(kind, rows)
            case Fixed():
                return binary_array(self.view, self._slices(rows, np.full(len(rows), kind.size, np.int64)))
            case Enum():
                return self._enum(kind, rows)
            case Decimal():
                return self._decimal(kind, rows)
            case List():
                offsets, order, (items,) = self._items(rows, [kind.items])
                return pa.ListArray.from_arrays(offsets, items.take(order), type=kind.arrow)
            case Map():
                offsets, order, (keys, items) = self._items(rows, [Primitive("string", pa.string()), kind.values])
                return pa.MapArray.from_arrays(offsets, keys.take(order), items.take(order), type=kind.arrow)

    # Positions.

    def _move(self, rows: Numbers, to: Numbers) -> None:
        stop = self.stop[rows]
        self.bad[rows[to > stop]] = True
        self.at[rows] = np.minimum(to, stop)

    def _numbers(self, rows: Numbers) -> Numbers:
        """The zigzag varints."""
        at = self.at[rows]
        value = self.view[at].astype(np.int64)
        at = at + 1
        longer = np.flatnonzero(value & 0x80)
        value &= 0x7F
        shift = 7
        while longer.size and shift <= LAST_SHIFT:
            byte = self.view[at[longer]].astype(np.int64)
            value[longer] |= (byte & 0x7F) << shift
            at[longer] += 1
            longer = longer[byte >= 0x80]
            shift += 7
        self.bad[rows[longer]] = True
        self._move(rows, at)
        return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1)

    def _slices(self, rows: Numbers, lengths: Numbers) -> Slices:
        start = self.at[rows]
        wrong = (lengths < 0) | (lengths > self.stop[rows] - start)
        self.bad[rows[wrong]] = True
        lengths = np.where(wrong, 0, lengths)
        self.at[rows] = start + lengths
        return Slices(start, lengths, np.zeros(len(rows), np.bool_))

    def _bytes(self, rows: Numbers, size: int) -> NDArray[np.uint8]:
        """The next bytes of each record, as a table."""
        start = self.at[rows]
        found: NDArray[np.uint8] = self.view[start[:, None] + np.arange(size)]
        self._move(rows, start + size)
        return found

    # Kinds.

    def _primitive(self, kind: Primitive, rows: Numbers) -> pa.Array:
        match kind.name:
            case "null":
                return pa.nulls(len(rows))
            case "boolean":
                found = self._bytes(rows, 1)[:, 0]
                self.bad[rows[found > 1]] = True
                return pa.array(found == 1)
            case "float" | "double":
                size = 4 if kind.name == "float" else 8
                return pa.array(np.ascontiguousarray(self._bytes(rows, size)).view(f"<f{size}")[:, 0])
            case "int" | "long":
                return self._integers(kind, rows)
            case "bytes":
                return binary_array(self.view, self._slices(rows, self._numbers(rows)))
        return self._texts(rows)

    def _integers(self, kind: Primitive, rows: Numbers) -> pa.Array:
        found = self._numbers(rows)
        most = (2**31 if kind.name == "int" else 2**63) // kind.factor
        wrong = (found < -most) | (found >= most)
        if wrong.any():
            self.bad[rows[wrong]] = True
            found = np.where(wrong, 0, found)
        found = found * kind.factor // kind.divisor
        if kind.arrow == pa.date32():
            return pa.array(found.astype(np.int32)).view(pa.date32())
        return pa.array(found).view(kind.arrow) if kind.arrow != pa.int32() else pa.array(found.astype(np.int32))

    def _texts(self, rows: Numbers) -> pa.Array:
        slices = self._slices(rows, self._numbers(rows))
        found = binary_array(self.view, slices)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:  # which ones is only asked where some are
            wrong = np.array([not is_text(each.as_py()) for each in found], np.bool_)
            self.bad[rows[wrong]] = True
            emptied = slices._replace(lengths=np.where(wrong, 0, slices.lengths))
            return binary_array(self.view, emptied).cast(pa.string())

    def _enum(self, kind: Enum, rows: Numbers) -> pa.Array:
        found = self._numbers(rows)
        wrong = (found < 0) | (found >= len(kind.symbols))
        self.bad[rows[wrong]] = True
        return pa.array(kind.symbols, pa.string()).take(pa.array(np.where(wrong, 0, found), mask=wrong))

    def _decimal(self, kind: Decimal, rows: Numbers) -> pa.Array:
        """Big-endian numbers of up to 16 bytes; Arrow's are little-endian and of 16 bytes."""
        lengths = self._numbers(rows) if kind.size is None else np.full(len(rows), kind.size, np.int64)
        slices = self._slices(rows, lengths)
        wrong = (slices.lengths > DECIMAL_BYTES) | (slices.lengths == 0)
        self.bad[rows[wrong]] = True
        place = np.arange(DECIMAL_BYTES)
        last = slices.starts + np.maximum(slices.lengths, 1) - 1
        inside = place < slices.lengths[:, None]
        first = self.view[slices.starts]
        found = np.where(
            inside, self.view[np.maximum(last[:, None] - place, 0)], np.where(first >= 0x80, 0xFF, 0)[:, None]
        ).astype(np.uint8)
        found[wrong] = 0
        whole = pa.Array.from_buffers(
            pa.decimal128(38, kind.arrow.scale), len(rows), [None, pa.py_buffer(found.tobytes())]
        )
        try:
            return whole.cast(kind.arrow)
        except pa.ArrowInvalid:
            limit = 10**kind.arrow.precision
            large = np.array([abs(int(each.as_py().scaleb(kind.arrow.scale))) >= limit for each in whole], np.bool_)
            self.bad[rows[large]] = True
            found[large] = 0
            return pa.Array.from_buffers(kind.arrow, len(rows), [None, pa.py_buffer(found.tobytes())])

    def _union(self, kind: Union, rows: Numbers) -> pa.Array:
        chosen = self._numbers(rows)
        self.bad[rows[(chosen < 0) | (chosen >= len(kind.options))]] = True
        arrays = []
        for number, each in kind.members:
            own = chosen == number
            found = self.array(each, rows[own])
            arrays.append(found.take(pa.array(np.cumsum(own) - 1, mask=~own)) if not own.all() else found)
        if len(arrays) <= 1:
            return arrays[0] if arrays else pa.nulls(len(rows))
        return pa.StructArray.from_arrays(
            arrays, fields=list(kind.arrow), mask=pa.array(~np.isin(chosen, [number for number, _ in kind.members]))
        )

    def _items(self, rows: Numbers, kinds: Sequence[Kind]) -> tuple[pa.Array, pa.Array, list[pa.Array]]:
        """The items of arrays and maps: the first ones of all records, then the second ones, and so on. Returns the
        offsets of each record's items, their order, and the items."""
        owners: list[Numbers] = []
        parts: list[list[pa.Array]] = [[self.array(each, NO_ROWS)] for each in kinds]
        left = np.zeros(len(rows), np.int64)
        open_ = np.arange(len(rows))
        while open_.size:
            new = open_[left[open_] == 0]
            left[new] = self._block(rows[new])
            open_ = open_[left[open_] > 0]
            if not open_.size:
                break
            owners.append(open_)
            for part, each in zip(parts, kinds, strict=True):
                part.append(self.array(each, rows[open_]))
            left[open_] -= 1
        owner = np.concatenate(owners) if owners else NO_ROWS
        counts = np.bincount(owner, minlength=len(rows))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        order = np.argsort(owner, kind="stable")
        return pa.array(offsets), pa.array(order), [pa.concat_arrays(part) for part in parts]

    def _block(self, rows: Numbers) -> Numbers:
        """How many items the next block of each record has, 0 at the end. A malformed record has no more: each item
        takes a byte, or an array of nothing would have no end."""
        count = self._numbers(rows)
        sized = count < 0
        if sized.any():
            self._numbers(rows[sized])
            count = np.abs(count)
        wrong = self.bad[rows] | (count < 0) | (count > self.stop[rows] - self.at[rows])
        self.bad[rows[wrong]] = True
        return np.where(wrong, 0, count)
