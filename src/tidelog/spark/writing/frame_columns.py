"""The columns that a frame needs to be written, with the rules of Spark's own connector: checked before anything is
sent."""

from typing import NamedTuple

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from tidelog.spark.options import BadOption
from tidelog.spark.writing import encoding
from tidelog.spark.writing.write_options import TOPIC

KEY, VALUE, HEADERS, PARTITION = "key", "value", "headers", "partition"


class Columns(NamedTuple):
    """Which of the optional columns a frame has."""

    key: bool
    headers: bool
    partition: bool


def checked(schema: StructType, topic: str | None) -> Columns:
    """The columns of a frame; names in any case. BadOption for a missing column or a wrong type."""
    found: dict[str, DataType] = {field.name.lower(): field.dataType for field in schema.fields}
    if topic is None and TOPIC not in found:
        raise BadOption("option 'topic' is needed, as the frame has no column 'topic': set one of them")
    if VALUE not in found:
        raise BadOption(f"a column 'value' is needed; the frame has {', '.join(schema.fieldNames()) or 'none'}")
    if topic is None:
        _typed(found, TOPIC, StringType)
    _typed(found, KEY, StringType, BinaryType)
    _typed(found, VALUE, StringType, BinaryType)
    _typed(found, PARTITION, IntegerType)
    if HEADERS in found and not _is_headers(found[HEADERS]):
        wanted = "array<struct<key:string,value:binary>>"
        raise BadOption(f"column 'headers' must be {wanted}, not {found[HEADERS].simpleString()}")
    return Columns(KEY in found, HEADERS in found, PARTITION in found)


def _typed(found: dict[str, DataType], name: str, *kinds: type[DataType]) -> None:
    if name in found and not isinstance(found[name], kinds):
        wanted = " or ".join(kind.typeName() for kind in kinds)
        raise BadOption(f"column {name!r} must be {wanted}, not {found[name].simpleString()}: cast it")


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [(field.name, type(field.dataType)) for field in kind.elementType.fields]
    return fields == [("key", StringType), ("value", BinaryType)]


class Part(NamedTuple):
    """Rows for one topic; `partitions` are those that the rows name, if there is such a column."""

    topic: str
    rows: encoding.Rows
    partitions: pa.Array | None


def parts(batch: pa.RecordBatch, topic: str | None, columns: Columns) -> list[Part]:
    """The rows of an Arrow batch by topic, in order. ValueError if a row has no topic."""
    named = {field.lower(): batch.column(number) for number, field in enumerate(batch.schema.names)}
    keys = encoding.binary(named[KEY]) if columns.key else None
    headers = encoding.headers(named[HEADERS]) if columns.headers else None
    rows = encoding.Rows(keys, encoding.binary(named[VALUE]), headers)
    partitions = named[PARTITION] if columns.partition else None
    if topic is not None:
        return [Part(topic, rows, partitions)]
    topics = named[TOPIC]
    if topics.null_count:
        raise ValueError("column 'topic' is null in a row: fill it, or set option 'topic' for all rows")
    return [_of_topic(name, topics, rows, partitions) for name in topics.unique().to_pylist()]


def _of_topic(name: str, topics: pa.Array, rows: encoding.Rows, partitions: pa.Array | None) -> Part:
    import numpy as np
    import pyarrow.compute as pc

    chosen = np.flatnonzero(np.asarray(pc.equal(topics, name)))
    return Part(name, rows.taken(chosen), None if partitions is None else partitions.take(pa.array(chosen)))
