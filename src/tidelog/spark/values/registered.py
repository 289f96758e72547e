"""Values in the format of Confluent's serializers as columns of one table: a zero byte, the ID of a schema in four
bytes, and a record of Avro; or for Protobuf the place of the message in its file, and the message.

Each value is decoded by the schema that it was written with; its columns are then fitted to the table's by name, as
Avro resolves schemas.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.spark.reading.record_columns import Bytes, Numbers
from tidelog.spark.values import avro_columns, proto_columns
from tidelog.spark.values.avro_columns import padded
from tidelog.spark.values.avro_schema import Record
from tidelog.spark.values.proto_schema import Message, Place, Schema, UnsupportedSchema

FRAME_BYTES = 5
INTEGERS, FLOATS, TEXTS = (pa.int32(), pa.int64()), (pa.float32(), pa.float64()), (pa.string(), pa.binary())
PROMOTED = frozenset(
    [
        (INTEGERS[0], INTEGERS[1]),
        *((integer, real) for integer in INTEGERS for real in FLOATS),
        FLOATS,
        TEXTS,
        TEXTS[::-1],
    ]
)
"""From what the writer wrote to what the table has."""


Mask = NDArray[np.bool_]
MAX_DEPTH = 8
"""Of messages inside messages, whose places a value names."""


class Decoded(NamedTuple):
    """Some of the rows, their columns, and which of them are malformed."""

    rows: Numbers
    found: pa.StructArray
    bad: Mask


class Written(Protocol):
    """The schema of a writer."""

    def decoded(self, view: Bytes, starts: Numbers, stops: Numbers) -> Iterator[Decoded]:
        """What is behind the frame, in padded bytes. Rows that are in no part are malformed."""
        ...


class Avro(NamedTuple):
    record: Record

    def decoded(self, view: Bytes, starts: Numbers, stops: Numbers) -> Iterator[Decoded]:
        yield Decoded(np.arange(len(starts)), *avro_columns.decode(self.record, view, starts, stops))


class Protobuf:
    """A file of messages, and the full name of the one that counts: values that are another one are malformed."""

    def __init__(self, schema: Schema, message: str) -> None:
        try:
            self._message: Message | None = schema.message(message) if message in schema.names().values() else None
        except UnsupportedSchema:
            self._message = None
        self._places = {place for place, name in schema.names().items() if name == message}

    def decoded(self, view: Bytes, starts: Numbers, stops: Numbers) -> Iterator[Decoded]:
        if self._message is None:
            return
        rows, after = _at_places(self._places, view, starts, stops)
        yield Decoded(rows, *proto_columns.decode(self._message, view, after, stops[rows]))


def _at_places(places: set[Place], view: Bytes, starts: Numbers, stops: Numbers) -> tuple[Numbers, Numbers]:
    """The values of messages at these places, and where the messages begin. A place is a list of zigzag varints behind
    their count, or a zero for the first message."""
    count, at, wrong = _zigzags(view, starts, stops)
    rows, after = [], []
    for depth in {len(place) for place in places if len(place) <= MAX_DEPTH}:
        chosen = np.flatnonzero(~wrong & (count == depth))
        place, end, bad = [], at[chosen], np.zeros(len(chosen), np.bool_)
        for _ in range(depth):
            number, end, is_wrong = _zigzags(view, end, stops[chosen])
            place.append(number)
            bad |= is_wrong
        for each in places:
            if len(each) == depth:
                own = ~bad & np.logical_and.reduce([found == number for found, number in zip(place, each, strict=True)])
                rows.append(chosen[own])
                after.append(end[own])
    if (0,) in places:
        first = np.flatnonzero(~wrong & (count == 0))
        rows.append(first)
        after.append(at[first])
    found, ends = np.concatenate([np.empty(0, np.int64), *rows]), np.concatenate([np.empty(0, np.int64), *after])
    order = np.argsort(found)
    return found[order], ends[order]


def _zigzags(view: Bytes, at: Numbers, stops: Numbers) -> tuple[Numbers, Numbers, Mask]:
    value, after, wrong = proto_columns.varints(view, at, stops)
    return (value >> 1) ^ -(value & 1), np.minimum(after, stops), wrong


class Unfit(Exception):
    """A column of a writer that cannot become the table's."""


def columns(
    values: pa.Array, wanted: pa.DataType, schema_of: Callable[[int], Written | None]
) -> tuple[pa.StructArray, Mask]:
    """The rows of a binary array, and which of them are malformed: not in this format, without a known schema, or with
    a schema that does not fit. Malformed rows and those of null values are null; a column that the writer did not have
    is null, and one that the table does not have is left out."""
    count = len(values)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + count + 1].astype(np.int64)
    view = padded(data if data is not None else b"")
    starts, stops = ends[:-1], ends[1:]
    present = ~np.asarray(values.is_null())
    framed = present & (stops - starts >= FRAME_BYTES) & (view[starts] == 0)
    numbers = np.zeros(count, np.int64)
    for place in range(1, FRAME_BYTES):
        numbers = numbers << 8 | view[np.minimum(starts + place, len(view) - 1)]
    groups, taken, before = [pa.nulls(0, wanted)], np.full(count, -1, np.int64), 0
    for number in np.unique(numbers[framed]).tolist():
        schema = schema_of(number)
        rows = np.flatnonzero(framed & (numbers == number))
        for part in schema.decoded(view, starts[rows] + FRAME_BYTES, stops[rows]) if schema is not None else ():
            try:
                groups.append(fitted(part.found, wanted))
            except Unfit:
                continue
            taken[rows[part.rows]] = np.where(part.bad, -1, before + np.arange(len(part.rows)))
            before += len(part.rows)
    missing = taken < 0
    return pa.concat_arrays(groups).take(pa.array(taken, mask=missing)), present & missing


def fitted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The array as a column of the table. Unfit if that would change what a value means."""
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if pa.types.is_struct(array.type) and pa.types.is_struct(wanted):
        fields = [
            fitted(array.field(array.type.get_field_index(field.name)), field.type)
            if array.type.get_field_index(field.name) >= 0
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(array.type) and pa.types.is_list(wanted):
        items = fitted(array.values, wanted.value_type)
        return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=array.is_null())
    if pa.types.is_map(array.type) and pa.types.is_map(wanted):
        keys, items = fitted(array.keys, wanted.key_type), fitted(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted, mask=array.is_null())
    if (array.type, wanted) not in PROMOTED:
        raise Unfit(f"{array.type} cannot become {wanted}")
    try:
        return array.cast(wanted, safe=wanted in TEXTS)
    except pa.ArrowInvalid as error:
        raise Unfit(str(error)) from None
