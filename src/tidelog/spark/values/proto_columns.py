"""The wire format of Protocol Buffers as Arrow columns, without Python code for each record.

The messages of a batch are scanned together: first the first fields of all, then the second ones, and so on, which
gives the places of all fields. Each column is then made of its fields at once, and messages inside messages are scanned
in the same way. As for Google's parser, fields may be in any order, the last one counts, messages that appear twice are
merged, and a field that is unknown or of another wire type is skipped.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.spark.reading.record_columns import Bytes, Numbers, Slices, binary_array
from tidelog.spark.values.proto_schema import UNSIGNED_64, Enum, Field, Kind, Message, Scalar, Timestamp
from tidelog.spark.values.text import is_text

VARINT, EIGHT, SIZED, BEGIN, END, FOUR = range(6)
VARINT_BYTES = 10
WIRES = {"double": EIGHT, "fixed64": EIGHT, "sfixed64": EIGHT, "float": FOUR, "fixed32": FOUR, "sfixed32": FOUR}
WIRES.update(string=SIZED, bytes=SIZED)
FIXED = {"double": "<f8", "fixed64": "<i8", "sfixed64": "<i8", "float": "<f4", "fixed32": "<u4", "sfixed32": "<i4"}
MAX_FIELD = 2**29
MICROS, NANOS_PER_MICRO = 1_000_000, 1000
LAST_SECOND = 2**63 // MICROS
SECONDS, NANOS = Field("seconds", 1, Scalar("int64")), Field("nanos", 2, Scalar("int32"))
Mask = NDArray[np.bool_]
NO_NUMBERS = np.empty(0, np.int64)


class Ranges(NamedTuple):
    """Bytes of messages, in order. `rows` are the rows that they belong to, of which each may have several, or none;
    `records` the numbers of the records that they are in."""

    rows: Numbers
    records: Numbers
    starts: Numbers
    stops: Numbers


class Found(NamedTuple):
    """Fields in the order of the bytes: their rows and records, numbers and wire types, and bytes or number."""

    rows: Numbers
    records: Numbers
    numbers: Numbers
    wires: Numbers
    starts: Numbers
    lengths: Numbers
    values: Numbers

    def only(self, chosen: Mask | Numbers) -> "Found":
        return Found(*(each[chosen] for each in self))

    @property
    def ranges(self) -> Ranges:
        return Ranges(self.rows, self.records, self.starts, self.starts + self.lengths)


def decode(message: Message, view: Bytes, starts: Numbers, stops: Numbers) -> tuple[pa.StructArray, Mask]:
    """The records in these ranges of padded bytes, which are in order, and which of them are malformed: the values of
    those mean nothing."""
    decoder = _Decoder(view, len(starts))
    rows = np.arange(len(starts), dtype=np.int64)
    return decoder.message(message, Ranges(rows, rows, starts, stops), len(rows)), decoder.bad


def varints(view: Bytes, at: Numbers, stops: Numbers) -> tuple[Numbers, Numbers, Mask]:
    """The numbers that begin there, where they end, and which of them do not end before their `stops`."""
    value = view[at].astype(np.int64)
    after = at + 1
    longer = np.flatnonzero(value & 0x80)
    value &= 0x7F
    for shift in range(7, 7 * VARINT_BYTES, 7):
        if not longer.size:
            break
        byte = view[np.minimum(after[longer], len(view) - 1)].astype(np.int64)
        value[longer] |= (byte & 0x7F) << shift
        after[longer] += 1
        longer = longer[byte >= 0x80]
    wrong = after > stops
    wrong[longer] = True
    return value, after, wrong


class _Decoder:
    def __init__(self, view: Bytes, count: int) -> None:
        self.view = view
        self.bad = np.zeros(count, np.bool_)

    def message(self, kind: Message, ranges: Ranges, count: int) -> pa.StructArray:
        """A struct for each of so many rows; a row without bytes has defaults."""
        found = self._scan(ranges)
        arrays = [self._column(field, self._of(field, kind, found), count) for field in kind.fields]
        return pa.StructArray.from_arrays(arrays, fields=list(kind.arrow))

    # The bytes.

    def _scan(self, ranges: Ranges) -> Found:
        """All fields of the messages, without those in groups, which no schema here has."""
        at, depth = ranges.starts.copy(), np.zeros(len(ranges.starts), np.int64)
        parts: list[tuple[Numbers, ...]] = []
        active = np.flatnonzero(at < ranges.stops)
        while active.size:
            stop = ranges.stops[active]
            tags, start, wrong = varints(self.view, at[active], stop)
            numbers, wires = tags >> 3, tags & 7
            wrong |= (numbers <= 0) | (numbers >= MAX_FIELD) | (wires > FOUR) | (start > stop)
            start = np.minimum(start, stop)
            values, lengths = np.zeros(len(active), np.int64), np.zeros(len(active), np.int64)
            lengths[wires == EIGHT], lengths[wires == FOUR] = 8, 4
            coded = np.flatnonzero(((wires == VARINT) | (wires == SIZED)) & ~wrong)
            if coded.size:
                value, after, bad = varints(self.view, start[coded], stop[coded])
                sized = wires[coded] == SIZED
                wrong[coded[bad]] = True
                values[coded] = value
                lengths[coded] = np.where(sized, value, after - start[coded])
                start[coded] = np.where(sized, after, start[coded])
            wrong |= (lengths < 0) | (lengths > stop - start)
            step = (wires == BEGIN).astype(np.int64) - (wires == END)
            wrong |= depth[active] + step < 0
            kept = np.flatnonzero(~wrong & (step == 0) & (depth[active] == 0))
            chosen = active[kept]
            parts.append((chosen, numbers[kept], wires[kept], start[kept], lengths[kept], values[kept]))
            depth[active] += step
            at[active] = start + np.where(wrong, 0, lengths)
            self.bad[ranges.records[active[wrong]]] = True
            active = active[~wrong & (at[active] < stop)]
        self.bad[ranges.records[depth > 0]] = True
        if not parts:
            return Found(*[NO_NUMBERS] * 7)
        owners, *fields = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Found(ranges.rows[owners], ranges.records[owners], *fields)

    def _of(self, field: Field, message: Message, found: Found) -> Found:
        """The appearances of a field that count, in the order of the bytes."""
        wires = [_wire(field.kind)]
        if field.shape == "many" and wires != [SIZED]:
            wires.append(SIZED)  # packed
        own = _ordered(found.only((found.numbers == field.number) & np.isin(found.wires, wires)))
        if isinstance(field.kind, Enum) and field.kind.is_closed and field.shape != "many":
            own = own.only(np.isin(own.values.astype(np.int32), [number for number, _ in field.kind.names]))
        others = [each.number for each in message.fields if each.choice == field.choice and each != field]
        if field.choice and others and own.rows.size:
            rivals = found.only(np.isin(found.numbers, others))
            last = np.full(int(own.rows.max()) + 1, -1, np.int64)
            near = rivals.rows < len(last)
            np.maximum.at(last, rivals.rows[near], rivals.starts[near])
            own = own.only(own.starts > last[own.rows])
        return own

    # Columns.

    def _column(self, field: Field, found: Found, count: int) -> pa.Array:
        match field.shape:
            case "many":
                return self._list(field, found, count)
            case "map":
                return self._map(field, found, count)
        if isinstance(field.kind, Message) and not field.has_presence:
            return self.message(field.kind, found.ranges, count)
        if isinstance(field.kind, Message | Timestamp):
            rows, places = np.unique(found.rows, return_inverse=True)
            ranges = found.ranges._replace(rows=places.astype(np.int64))
            if isinstance(field.kind, Message):
                items = self.message(field.kind, ranges, len(rows))
            else:
                items = self._timestamps(ranges, len(rows))
        else:
            found = found.only(np.flatnonzero(np.diff(found.rows, append=-1) != 0))  # the last one of each row
            rows, items = found.rows, self._values(field.kind, found)
        if len(rows) == count:
            return items
        places = np.zeros(count, np.int64)
        places[rows] = np.arange(len(rows))
        missing = np.ones(count, np.bool_)
        missing[rows] = False
        spread = items.take(pa.array(places, mask=missing))
        return spread if field.has_presence else spread.fill_null(_default(field.kind))

    def _values(self, kind: Kind, found: Found) -> pa.Array:
        """One for each appearance."""
        if isinstance(kind, Message):
            return self.message(kind, found.ranges._replace(rows=np.arange(len(found.rows))), len(found.rows))
        if isinstance(kind, Timestamp):
            return self._timestamps(found.ranges._replace(rows=np.arange(len(found.rows))), len(found.rows))
        if isinstance(kind, Enum):
            return _enum(kind, found.values)
        if kind.name in FIXED:
            size = 8 if WIRES[kind.name] == EIGHT else 4
            table = self.view[found.starts[:, None] + np.arange(size)]
            return _numbers(kind, np.ascontiguousarray(table).view(FIXED[kind.name]).reshape(-1))
        if _wire(kind) == VARINT:
            return _numbers(kind, found.values)
        slices = Slices(found.starts, found.lengths, np.zeros(len(found.rows), np.bool_))
        raw = binary_array(self.view, slices)
        if kind.name == "bytes":
            return raw
        try:
            return raw.cast(pa.string())
        except pa.ArrowInvalid:  # which ones is only asked where some are
            wrong = np.array([not is_text(each.as_py()) for each in raw], np.bool_)
            self.bad[found.records[wrong]] = True
            return binary_array(self.view, slices._replace(lengths=np.where(wrong, 0, slices.lengths))).cast(
                pa.string()
            )

    def _timestamps(self, ranges: Ranges, count: int) -> pa.Array:
        whole = self.message(Message("", (SECONDS, NANOS)), ranges, count)
        seconds, nanos = (whole.field(number).to_numpy().astype(np.int64) for number in range(2))
        wrong = (abs(seconds) >= LAST_SECOND) | (seconds == np.iinfo(np.int64).min)
        self.bad[ranges.records[wrong[ranges.rows]]] = True
        micros = np.where(wrong, 0, seconds) * MICROS + nanos // NANOS_PER_MICRO
        return pa.array(micros).view(pa.timestamp("us", "UTC"))

    def _list(self, field: Field, found: Found, count: int) -> pa.Array:
        wire = _wire(field.kind)
        if wire != SIZED and (found.wires == SIZED).any():
            found = self._unpacked(found, wire)
        if isinstance(field.kind, Enum) and field.kind.is_closed:
            found = found.only(np.isin(found.values.astype(np.int32), [number for number, _ in field.kind.names]))
        items = self._values(field.kind, found)
        return pa.ListArray.from_arrays(_offsets(found.rows, count), items, type=field.arrow)

    def _unpacked(self, found: Found, wire: int) -> Found:
        """Fields of several numbers as that many fields."""
        packed = found.wires == SIZED
        single, many = found.only(~packed), found.only(packed)
        if wire == VARINT:
            owners, starts, stops = self._packed_varints(many)
        else:
            size = 8 if wire == EIGHT else 4
            self.bad[many.records[many.lengths % size != 0]] = True
            counts = many.lengths // size
            owners = np.repeat(np.arange(len(counts)), counts)
            starts = many.starts[owners] + size * _places(counts)
            stops = starts + size
        values, _, wrong = varints(self.view, starts, stops) if wire == VARINT else (starts, stops, starts < 0)
        self.bad[many.records[owners[wrong]]] = True
        each = Found(
            many.rows[owners],
            many.records[owners],
            many.numbers[owners],
            np.full(len(owners), wire),
            starts,
            stops - starts,
            values,
        )
        return _ordered(Found(*(np.concatenate(pair) for pair in zip(single, each, strict=True))))

    def _packed_varints(self, many: Found) -> tuple[Numbers, Numbers, Numbers]:
        """The fields that numbers are in, and where each number begins and ends."""
        owners = np.repeat(np.arange(len(many.rows)), many.lengths)
        places = many.starts[owners] + _places(many.lengths)
        last = self.view[places] < 0x80
        full = many.lengths > 0
        cut = many.only(full)
        self.bad[cut.records[self.view[cut.starts + cut.lengths - 1] >= 0x80]] = True
        owners, stops = owners[last], places[last] + 1
        starts = many.starts[owners]
        follows = np.zeros(len(owners), np.bool_)
        follows[1:] = owners[1:] == owners[:-1]
        starts[follows] = stops[np.flatnonzero(follows) - 1]
        return owners, starts, stops

    def _map(self, field: Field, found: Found, count: int) -> pa.Array:
        entries = self._values(field.kind, found)
        keys, values, rows = entries.field(0), entries.field(1), found.rows
        codes = keys.dictionary_encode().indices.to_numpy()
        pairs = rows * (len(keys) + 1) + codes
        _, last = np.unique(pairs[::-1], return_index=True)
        if len(last) < len(pairs):  # of a key that appears twice, the last one counts
            kept = np.sort(len(pairs) - 1 - last)
            keys, values, rows = keys.take(pa.array(kept)), values.take(pa.array(kept)), rows[kept]
        return pa.MapArray.from_arrays(_offsets(rows, count), keys, values, type=field.arrow)


def _wire(kind: Kind) -> int:
    if isinstance(kind, Message | Timestamp):
        return SIZED
    return WIRES.get(kind.name, VARINT) if isinstance(kind, Scalar) else VARINT


def _ordered(found: Found) -> Found:
    """Scanned fields are in the order of their places in the messages."""
    if (np.diff(found.starts) >= 0).all():
        return found
    return found.only(np.argsort(found.starts, kind="stable"))


def _numbers(kind: Scalar, values: NDArray[np.generic]) -> pa.Array:
    """Varints as the type says, or fixed numbers as they are."""
    match kind.name:
        case "bool":
            return pa.array(values != 0)
        case "int32":
            return pa.array(values.astype(np.int32))
        case "uint32":
            return pa.array(values.astype(np.int64) & 0xFFFFFFFF)
        case "sint32":
            low = values.astype(np.int64) & 0xFFFFFFFF
            return pa.array(((low >> 1) ^ -(low & 1)).astype(np.int32))
        case "sint64":
            whole = values.astype(np.int64)
            return pa.array(((whole >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(whole & 1))
        case "uint64" | "fixed64":
            halves = np.zeros((len(values), 2), np.int64)
            halves[:, 0] = values
            return pa.Array.from_buffers(UNSIGNED_64, len(values), [None, pa.py_buffer(halves.tobytes())])
    return pa.array(values).cast(kind.arrow)


def _enum(kind: Enum, values: Numbers) -> pa.Array:
    """A number without a name is text, as in JSON."""
    distinct, places = np.unique(values.astype(np.int32), return_inverse=True)
    names = dict(kind.names)
    texts = [names.get(number, str(number)) for number in distinct.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(places.astype(np.int64)))


def _default(kind: Kind) -> pa.Scalar:
    if isinstance(kind, Enum):
        return pa.scalar(kind.default)
    return pa.scalar(0, pa.int64()).cast(kind.arrow) if kind.arrow not in EMPTY else pa.scalar(EMPTY[kind.arrow])


EMPTY = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}


def _offsets(rows: Numbers, count: int) -> pa.Array:
    counts = np.bincount(rows, minlength=count)
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _places(counts: Numbers) -> Numbers:
    """0, 1, … for each of the counts."""
    total = int(counts.sum())
    return np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
