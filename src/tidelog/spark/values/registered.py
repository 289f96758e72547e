"""Values in the format of Confluent's serializers (a zero byte, the ID of a schema in four bytes, a record of Avro) as
columns of one table.

Each value is decoded by the schema that it was written with; its columns are then fitted to the table's by name, as
Avro resolves schemas.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidelog.spark.values.avro_columns import decode, padded
from tidelog.spark.values.avro_schema import Record

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


class Unfit(Exception):
    """A column of a writer that cannot become the table's."""


def columns(
    values: pa.Array, wanted: pa.DataType, schema_of: Callable[[int], Record | None]
) -> tuple[pa.StructArray, NDArray[np.bool_]]:
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
        kind = schema_of(number)
        rows = np.flatnonzero(framed & (numbers == number))
        if kind is None:
            continue
        found, bad = decode(kind, view, starts[rows] + FRAME_BYTES, stops[rows])
        try:
            groups.append(fitted(found, wanted))
        except Unfit:
            continue
        taken[rows] = np.where(bad, -1, before + np.arange(len(rows)))
        before += len(rows)
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
    if (array.type, wanted) not in PROMOTED:
        raise Unfit(f"{array.type} cannot become {wanted}")
    try:
        return array.cast(wanted, safe=wanted in TEXTS)
    except pa.ArrowInvalid as error:
        raise Unfit(str(error)) from None
