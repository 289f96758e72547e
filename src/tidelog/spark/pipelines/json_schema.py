"""The columns of the JSON in a topic: given as DDL, as Spark's JSON or as JSON Schema, or inferred from the first
values."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidelog.spark.pipelines.plan import Plan, WrongOption

LOOKED_AT = 1_000
"""The number of values to infer the columns from."""
BATCH_ONLY = {"endingOffsets": "latest"}
TYPES: Mapping[str, str] = {"integer": "bigint", "number": "double", "boolean": "boolean", "string": "string"}
FORMATS: Mapping[str, str] = {"date-time": "timestamp", "date": "date"}


def resolve(spark: Any, plan: Plan, kept: str, find: Callable[[], Any] | None = None) -> Any:
    """The StructType of the values. `kept` is the table's so far, as Spark's JSON, "" for a new one: a table has one
    schema. `find` finds that of a new one if none is given; by default it is inferred."""
    from pyspark.sql.types import StructType

    given = _parsed(plan["schema"]) if plan["schema"] else None
    if not kept:
        if given is not None:
            return given
        return find() if find is not None else _found(spark, plan)
    found = StructType.fromJson(json.loads(kept))
    if given is not None and given != found:
        raise WrongOption(
            f"option 'schema' differs from that of the table so far ({found.simpleString()}): leave it out"
        )
    return found


def _parsed(text: str) -> Any:
    """A schema from DDL or a file. WrongOption describes what is expected."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    try:
        if not text.endswith(".json"):
            return StructType.fromDDL(text)
        content = json.loads(Path(text).read_text(encoding="utf-8"))
        if "properties" in content:
            return of_json_schema(content)
        return StructType.fromJson(content)
    except (OSError, ValueError, KeyError, TypeError, PySparkException) as error:
        reason = str(error).splitlines()[0]
        raise WrongOption(
            f"option 'schema' is DDL like 'id bigint, name string', or a .json file with a JSON Schema or Spark's own "
            f"form; {text!r} is invalid: {reason}"
        ) from None


def of_json_schema(schema: Mapping[str, Any]) -> Any:
    """The StructType of a JSON Schema. KeyError, TypeError or ParseException if it has no columns."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(_columns(schema))


def _columns(schema: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}` {_type(each)}" for name, each in schema["properties"].items())


def _type(schema: Mapping[str, Any]) -> str:
    """A column's type. A column of several types, or without a type, stays text."""
    kinds = schema.get("type", "string")
    named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    kind = named[0] if len(named) == 1 else "string"
    if kind == "array":
        return f"array<{_type(schema.get('items', {}))}>"
    if kind == "object":
        fields = schema.get("properties")
        if not fields:
            return "map<string,string>"
        return f"struct<{', '.join(f'`{name}`: {_type(each)}' for name, each in fields.items())}>"
    return FORMATS.get(schema.get("format", ""), TYPES[kind]) if kind == "string" else TYPES[kind]


def _found(spark: Any, plan: Plan) -> Any:
    """The schema that Spark infers from the first values."""
    reader = spark.read.format("tidelog").options(**plan.reading(plan["topic"]), **BATCH_ONLY)
    rows = reader.load().selectExpr("cast(value as string) as text").limit(LOOKED_AT).collect()
    texts = [row.text for row in rows if row.text is not None]
    if not texts:
        raise WrongOption(f"topic {plan['topic']} has no value from which to infer the schema; give option 'schema'")
    return inferred(spark, texts)


def inferred(spark: Any, texts: Sequence[str]) -> Any:
    """The StructType that Spark infers from objects of JSON."""
    found = spark.read.json(spark.createDataFrame([(text,) for text in texts], "text string"))
    return found.drop("_corrupt_record").schema
