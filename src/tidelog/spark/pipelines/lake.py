"""Pipeline *lake*: a topic as a partitioned table of Delta Lake, or of Parquet files.

`lake_values` finds the columns and decodes values, `tables` checks that table and checkpoint agree. `delta_table`
writes a Delta table; Spark's own file sink writes Parquet (`parquet_table`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from tidelog.spark.pipelines import output_topics
from tidelog.spark.pipelines.delta_table import DeltaTableOfRows
from tidelog.spark.pipelines.folders import absolute
from tidelog.spark.pipelines.lake_values import VALUES
from tidelog.spark.pipelines.parquet_table import ParquetTable
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption
from tidelog.spark.pipelines.tables import FROM_TABLE, RESTART, Record, Table, claim, source_of

MIB = 1024 * 1024
STAGE = "lake"


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
    every, target = compaction(plan)
    if plan["format"] not in ("delta", "parquet"):
        raise WrongOption(f"option 'format' is delta or parquet, not {plan['format']!r}")
    if plan["values"] not in VALUES:
        raise WrongOption(f"option 'values' is {', '.join(VALUES)}, not {plan['values']!r}")
    if plan[RESTART] not in ("", FROM_TABLE):
        raise WrongOption(f"option {RESTART!r} is {FROM_TABLE}, or left out, not {plan[RESTART]!r}")
    with plan.access.lookup_admin() as admin:
        output_topics.existing_topics(admin, "topic", [plan["topic"]])

    def fill() -> Any:
        place = absolute(plan["path"])
        table: Table = DeltaTableOfRows(place) if plan["format"] == "delta" else ParquetTable(place, spark)
        known = table.record()
        values = VALUES[plan["values"]]
        schema = values.schema(spark, plan, known.schema if known else "")
        rows = values.rows(plan, plan.records(spark, plan["topic"]), schema)
        frame, columns = partitioned(rows, plan["partition"])
        record = Record(source_of(plan.access, plan["topic"]), schema.json(), plan["partition"])
        query = claim(table, plan, spark, STAGE, record, frame, columns)
        if isinstance(table, DeltaTableOfRows):
            return plan.start(
                frame.writeStream.foreachBatch(into(table, query, every=every, target=target * MIB)), STAGE
            )
        return plan.start(frame.writeStream.format("parquet").option("path", place).partitionBy(*columns), STAGE)

    return [Stage(STAGE, fill)]


def compaction(plan: Plan) -> tuple[int, int]:
    """After how many batches small files are merged, and the size of merged ones in MiB."""
    return _number(plan, "compact"), _number(plan, "target")


def _number(plan: Plan, name: str) -> int:
    if not plan[name].isdigit():
        raise WrongOption(f"option {name!r} must be an integer, not {plan[name]!r}")
    return int(plan[name])


PIPELINE = Pipeline(
    "A topic of JSON or Avro as a partitioned Delta Lake or Parquet table.",
    {
        "topic": Option(None, "Topic to read."),
        "path": Option(None, "Folder or URI of the table; all executors must have access to it."),
        "format": Option("delta", "Table format: delta or parquet."),
        "partition": Option("", "Partition columns, separated by ';': carrier; day=date(time_hour)."),
        "values": Option("json", "Format of values: json, or avro or json-schema with a registry's schemas."),
        "schema": Option("", "DDL, or a .json file with a JSON or Spark schema (default: inferred)."),
        "registry": Option("", "URL of the schema registry; its API is Confluent's."),
        "registry-config": Option("", "File with options of confluent-kafka's SchemaRegistryClient."),
        "subject": Option("", "Subject of the schema in the registry (default: TOPIC-value)."),
        "compact": Option("20", "Delta: merge small files after this many batches; 0 disables merging."),
        "target": Option("128", "Delta: target size of merged files in MiB."),
        "restart": Option("", "table: a checkpoint that does not fit the table is replaced by one that does."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("topic", "format", "partition", "values"),
)
