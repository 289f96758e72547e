"""Pipeline *lake*: a topic of JSON as a partitioned table of Parquet files, or of Delta Lake.

`json_schema` finds the columns. Executors write files (`parquet_files`); only the driver makes them part of the table,
once for each batch (`lake_tables`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from tidelog.spark.pipelines import output_topics
from tidelog.spark.pipelines.json_schema import resolve
from tidelog.spark.pipelines.lake_tables import (
    DeltaLake,
    ParquetLake,
    claim_table,
    last_delta_batch,
    last_parquet_batch,
)
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption

OWN = {"_partition": "int", "_offset": "bigint", "_timestamp": "timestamp", "_malformed": "string"}
"""Columns besides those of the JSON: where a row comes from, and the whole value if it is not valid JSON."""
MIB = 1024 * 1024
STAGE = "lake"


class Lake(Protocol):
    def add(self, frame: Any, batch: int) -> None: ...
    def compact(self, target: int) -> int: ...


def rows(records: Any, schema: Any) -> Any:
    """The records as columns: a malformed one becomes a row with its value in `_malformed` and nulls elsewhere."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    taken = sorted(set(OWN) & {field.name for field in schema.fields})
    if taken:
        raise WrongOption(f"option 'schema' has a column {taken[0]!r}, which the lake has itself; name it otherwise")
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_malformed"}
    text = f.col("value").cast("string")
    row = f.from_json(text, StructType([*schema.fields, StructField("_malformed", StringType())]), how)
    place = (f.col(name.removeprefix("_")).alias(name) for name in ("_partition", "_offset", "_timestamp"))
    return records.select(row.alias("row"), *place).select(
        *(f.col(f"row.`{field.name}`") for field in schema.fields),
        "_partition",
        "_offset",
        "_timestamp",
        f.make_valid_utf8("row._malformed").alias("_malformed"),  # invalid text breaks readers of Parquet
    )


def partitioned(frame: Any, text: str) -> tuple[Any, list[str]]:
    """The frame with the partition columns `name` or `name=expression`, separated by ';', and their names."""
    names = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        name, _, expression = (side.strip() for side in part.partition("="))
        if expression:
            frame = _with(frame, name, expression)
        elif name not in frame.columns:
            raise WrongOption(
                f"option 'partition' names {name!r}, which is not a column; expected one of: {', '.join(frame.columns)}"
            )
        names.append(name)
    return frame, names


def _with(frame: Any, name: str, expression: str) -> Any:
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    try:
        return frame.withColumn(name, f.expr(expression))
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().splitlines()[0]
        raise WrongOption(
            f"option 'partition': {expression!r} is not a valid expression over the columns: {reason}"
        ) from None


def into(lake: Lake, *, every: int, target: int) -> Callable[[Any, int], None]:
    """The function for foreachBatch; after every `every` batches small files are merged (0: never)."""

    def batch(frame: Any, number: int) -> None:
        lake.add(frame, number)
        if every and number % every == every - 1:
            lake.compact(target)

    return batch


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    every, target = _number(plan, "compact"), _number(plan, "target")
    with plan.access.lookup_admin() as admin:
        output_topics.existing_topics(admin, "topic", [plan["topic"]])

    def fill() -> Any:
        frame = rows(plan.records(spark, plan["topic"]), resolve(spark, plan))
        frame, columns = partitioned(frame, plan["partition"])
        lake = _lake(plan, frame, columns)
        return plan.start(frame.writeStream.foreachBatch(into(lake, every=every, target=target * MIB)), STAGE)

    return [Stage(STAGE, fill)]


def _lake(plan: Plan, frame: Any, columns: Sequence[str]) -> Lake:
    folder = Path(plan["path"]).absolute()
    if plan["format"] == "parquet":
        claim_table(folder, plan.checkpoint, STAGE, lambda _: last_parquet_batch(folder))
        return ParquetLake(folder, columns)
    if plan["format"] != "delta":
        raise WrongOption(f"option 'format' is delta or parquet, not {plan['format']!r}")
    from pyspark.sql.pandas.types import to_arrow_schema

    app = claim_table(folder, plan.checkpoint, STAGE, lambda app: last_delta_batch(folder, app))
    return DeltaLake(folder, to_arrow_schema(frame.schema, timezone="UTC"), columns, app)


def _number(plan: Plan, name: str) -> int:
    if not plan[name].isdigit():
        raise WrongOption(f"option {name!r} must be an integer, not {plan[name]!r}")
    return int(plan[name])


PIPELINE = Pipeline(
    "A topic of JSON as a partitioned Delta Lake or Parquet table.",
    {
        "topic": Option(None, "Topic to read."),
        "path": Option(None, "Folder of the table; all executors must have access to it."),
        "format": Option("delta", "Table format: delta or parquet."),
        "partition": Option("", "Partition columns, separated by ';': carrier; day=date(time_hour)."),
        "schema": Option("", "DDL, or a .json file with a JSON or Spark schema (default: inferred)."),
        "compact": Option("20", "Merge small files after this many batches; 0 disables merging."),
        "target": Option("128", "Target size of merged files in MiB."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("topic", "format", "partition"),
)
