"""What a lake makes of the values of a topic: the columns of its table, and the rows of records, by option `values`.

A value that does not match the schema becomes a row with the value in `_malformed` and nulls elsewhere.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.client import properties
from tidelog.spark.pipelines.json_schema import of_json_schema, resolve
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.values import registry
from tidelog.spark.values.registry import RegistryAccess

OWN = {"_partition": "int", "_offset": "bigint", "_timestamp": "timestamp", "_malformed": "string"}
"""Columns besides those of the values: where a row comes from, and the whole value if it does not match the schema."""
WHOLE = "_record"
"""The record of a row that becomes a dead letter."""
PLACE = ("partition", "offset", "timestamp")
FRAME = b"\0"
"""Begins values of the registry; the ID of the schema follows in four bytes."""
FRAME_BYTES = 5


class Values(NamedTuple):
    """`schema` is called with a session, a plan and the table's schema so far, "" for a new one, and returns the
    StructType of the values; `rows` with a plan, the source's records, this schema, and names of columns of the records
    to append as they are."""

    schema: Callable[[Any, Plan, str], Any]
    rows: Callable[[Plan, Any, Any, Sequence[str]], Any]


def _json_rows(_: Plan, records: Any, schema: Any, kept: Sequence[str]) -> Any:
    from pyspark.sql import functions as f

    return _rows_of_text(records, schema, f.col("value"), kept)


def _framed_json_rows(_: Plan, records: Any, schema: Any, kept: Sequence[str]) -> Any:
    """A value without a frame is malformed, as for Confluent's deserializer."""
    from pyspark.sql import functions as f

    is_framed = f.substring("value", 1, 1) == f.lit(FRAME)
    text = f.when(is_framed, f.expr(f"substring(value, {FRAME_BYTES + 1})"))
    return _rows_of_text(records, schema, text, kept)


def _rows_of_text(records: Any, schema: Any, text: Any, kept: Sequence[str]) -> Any:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    _check_names(schema)
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    row = f.from_json(text.cast("string"), StructType([*schema.fields, StructField("_malformed", StringType())]), how)
    record = f.struct("value", *(name for name in kept if name != "value")).alias("record")
    parsed = records.select(
        record, text.alias("text"), row.alias("row"), *(f.col(name).alias(f"_{name}") for name in PLACE)
    )
    is_malformed = f.col("row._malformed").isNotNull() | (f.col("record.value").isNotNull() & f.col("text").isNull())
    whole = f.make_valid_utf8(f.col("record.value").cast("string"))  # invalid text breaks readers of Parquet
    return parsed.withColumn("_malformed", f.when(is_malformed, whole)).select(
        *(f.col(f"row.`{field.name}`") for field in schema.fields), *OWN, *(f"record.{name}" for name in kept)
    )


def _avro_rows(plan: Plan, records: Any, schema: Any, kept: Sequence[str]) -> Any:
    access = _access(plan)
    return _decoded(records, schema, kept, lambda number: registry.written(access, registry.AVRO, number))


def _protobuf_rows(plan: Plan, records: Any, schema: Any, kept: Sequence[str]) -> Any:
    access, message = _access(plan), plan["message"] or _first_message(plan)
    return _decoded(records, schema, kept, lambda number: registry.written(access, registry.PROTOBUF, number, message))


def _decoded(records: Any, schema: Any, kept: Sequence[str], schema_of: Callable[[int], Any]) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    _check_names(schema)
    own = StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in OWN.items()))
    found = StructType([*schema.fields, *own, *(records.schema[name] for name in kept)])
    wanted, whole = to_arrow_schema(schema, timezone="UTC"), to_arrow_schema(found, timezone="UTC")

    def decode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from tidelog.spark.values.registered import columns

        for batch in batches:
            values = batch.column("value")
            rows, bad = columns(values, pa.struct(list(wanted)), schema_of)
            malformed = [values[row].as_py().hex() if is_bad else None for row, is_bad in enumerate(bad.tolist())]
            places = [batch.column(name) for name in PLACE]
            more = [pa.array(malformed, pa.string()), *(batch.column(name) for name in kept)]
            yield pa.RecordBatch.from_arrays([*rows.flatten(), *places, *more], schema=whole)

    return records.select("value", *PLACE, *(name for name in kept if name not in ("value", *PLACE))).mapInArrow(
        decode, found
    )


def _avro_schema(spark: Any, plan: Plan, kept: str) -> Any:
    def find() -> Any:
        from pyspark.sql.pandas.types import from_arrow_type

        from tidelog.spark.values.avro_schema import UnsupportedSchema

        try:
            return from_arrow_type(registry.avro(_registered(plan, registry.AVRO)).arrow)
        except UnsupportedSchema as error:
            raise WrongOption(f"option 'subject': {error}") from None

    return resolve(spark, plan, kept, find)


def _protobuf_schema(spark: Any, plan: Plan, kept: str) -> Any:
    def find() -> Any:
        from pyspark.sql.pandas.types import from_arrow_type

        from tidelog.spark.values.proto_schema import UnsupportedSchema

        schema = _messages(plan)
        names = list(schema.names().values())
        name = plan["message"] or next(iter(names), "")
        if name not in names:
            raise WrongOption(
                f"option 'message': the schema has no message {name!r}; expected one of {', '.join(names)}"
            )
        try:
            return from_arrow_type(schema.message(name).arrow)
        except UnsupportedSchema as error:
            raise WrongOption(f"option 'subject': {error}") from None

    return resolve(spark, plan, kept, find)


def _messages(plan: Plan) -> Any:
    from tidelog.spark.values.proto_schema import UnsupportedSchema

    found = _registered(plan, registry.PROTOBUF)
    if find_spec("grpc_tools") is None:
        raise WrongOption("values=protobuf requires grpcio-tools: pip install 'tidelog[registry]'")
    try:
        return registry.protobuf(found)
    except UnsupportedSchema as error:
        raise WrongOption(f"option 'subject': {error}") from None


def _first_message(plan: Plan) -> str:
    return next(iter(_messages(plan).names().values()), "")


def _json_schema(spark: Any, plan: Plan, kept: str) -> Any:
    def find() -> Any:
        from pyspark.errors import PySparkException

        text = _registered(plan, registry.JSON).text
        try:
            return of_json_schema(json.loads(text))
        except (ValueError, KeyError, TypeError, PySparkException) as error:
            raise WrongOption(f"option 'subject': the JSON Schema has no columns: {error}") from None

    return resolve(spark, plan, kept, find)


def _registered(plan: Plan, kind: str) -> registry.Schema:
    """The newest schema of the topic's subject."""
    subject = plan["subject"] or f"{plan['topic']}-value"
    try:
        found = registry.latest(_access(plan), subject)
    except registry.RegistryFailed as error:
        raise WrongOption(f"option 'registry': {error}") from None
    if found is None:
        raise WrongOption(f"option 'subject': the registry has no schema of {subject}; give option 'schema'")
    if found.kind != kind:
        raise WrongOption(f"option 'values' is {plan['values']}, but the schema of {subject} is one of {found.kind}")
    return found


def _access(plan: Plan) -> RegistryAccess:
    if not plan["registry"]:
        raise WrongOption(f"option 'registry' is required for values={plan['values']}: the URL of the schema registry")
    if find_spec("confluent_kafka") is None:
        raise WrongOption(f"values={plan['values']} requires confluent-kafka: pip install 'tidelog[registry]'")
    file = plan["registry-config"]
    try:
        return RegistryAccess.of(plan["registry"], properties.read(Path(file).read_text("utf-8")) if file else {})
    except (OSError, ValueError) as error:
        raise WrongOption(f"option 'registry-config' is a file of options: {error}") from None


def _check_names(schema: Any) -> None:
    taken = sorted({*OWN, WHOLE} & {field.name for field in schema.fields})
    if taken:
        raise WrongOption(f"option 'schema' has a column {taken[0]!r}, which the lake has itself; name it otherwise")


VALUES: Mapping[str, Values] = {
    "json": Values(resolve, _json_rows),
    "avro": Values(_avro_schema, _avro_rows),
    "protobuf": Values(_protobuf_schema, _protobuf_rows),
    "json-schema": Values(_json_schema, _framed_json_rows),
}
