"""Pipeline *lake*: a topic of JSON as a partitioned table of Delta Lake, or of Parquet files.

`json_schema` finds the columns, `tables` checks that table and checkpoint agree. `delta_table` writes a Delta table;
Spark's own file sink writes Parquet (`parquet_table`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.spark.pipelines import output_topics
from tidelog.spark.pipelines.delta_table import DeltaTableOfRows
from tidelog.spark.pipelines.folders import absolute
from tidelog.spark.pipelines.json_schema import resolve
from tidelog.spark.pipelines.parquet_table import ParquetTable
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption
from tidelog.spark.pipelines.tables import FROM_TABLE, RESTART, Record, Table, claim, source_of

OWN = {"_partition": "int", "_offset": "bigint", "_timestamp": "timestamp", "_malformed": "string"}
"""Columns besides those of the JSON: where a row comes from, and the whole value if it is not valid JSON."""
MIB = 1024 * 1024
STAGE = "lake"


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


def into(table: DeltaTableOfRows, query: str, *, every: int, target: int) -> Callable[[Any, int], None]:
    """The function for foreachBatch; after every `every` batches small files are merged (0: never)."""

    def batch(frame: Any, number: int) -> None:
        table.add(frame, number, query)
        if every and number % every == every - 1:
            table.compact(target)

    return batch


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    every, target = _number(plan, "compact"), _number(plan, "target")
    if plan["format"] not in ("delta", "parquet"):
        raise WrongOption(f"option 'format' is delta or parquet, not {plan['format']!r}")
    if plan[RESTART] not in ("", FROM_TABLE):
        raise WrongOption(f"option {RESTART!r} is {FROM_TABLE}, or left out, not {plan[RESTART]!r}")
    with plan.access.lookup_admin() as admin:
        output_topics.existing_topics(admin, "topic", [plan["topic"]])

    def fill() -> Any:
        place = absolute(plan["path"])
        table: Table = DeltaTableOfRows(place) if plan["format"] == "delta" else ParquetTable(place, spark)
        known = table.record()
        schema = resolve(spark, plan, known.schema if known else "")
        frame, columns = partitioned(rows(plan.records(spark, plan["topic"]), schema), plan["partition"])
        record = Record(source_of(plan.access, plan["topic"]), schema.json(), plan["partition"])
        query = claim(table, plan, spark, STAGE, record, frame, columns)
        if isinstance(table, DeltaTableOfRows):
            return plan.start(
                frame.writeStream.foreachBatch(into(table, query, every=every, target=target * MIB)), STAGE
            )
        return plan.start(frame.writeStream.format("parquet").option("path", place).partitionBy(*columns), STAGE)

    return [Stage(STAGE, fill)]


def _number(plan: Plan, name: str) -> int:
    if not plan[name].isdigit():
        raise WrongOption(f"option {name!r} must be an integer, not {plan[name]!r}")
    return int(plan[name])


PIPELINE = Pipeline(
    "A topic of JSON as a partitioned Delta Lake or Parquet table.",
    {
        "topic": Option(None, "Topic to read."),
        "path": Option(None, "Folder or URI of the table; all executors must have access to it."),
        "format": Option("delta", "Table format: delta or parquet."),
        "partition": Option("", "Partition columns, separated by ';': carrier; day=date(time_hour)."),
        "schema": Option("", "DDL, or a .json file with a JSON or Spark schema (default: inferred)."),
        "compact": Option("20", "Delta: merge small files after this many batches; 0 disables merging."),
        "target": Option("128", "Delta: target size of merged files in MiB."),
        "restart": Option("", "table: a checkpoint that does not fit the table is replaced by one that does."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("topic", "format", "partition"),
)
