"""Pipeline *lake*: a topic as a table of Delta Lake or Iceberg, or of Parquet files.

`lake_values` finds the columns and decodes values, `tables` checks that table and checkpoint agree. `delta_table`
and `iceberg_table` write tables; Spark's own file sink writes Parquet (`parquet_table`).
"""

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from tidelog.spark.pipelines import dead_letters, output_topics
from tidelog.spark.pipelines.delta_table import DeltaTableOfRows
from tidelog.spark.pipelines.folders import absolute, is_uri
from tidelog.spark.pipelines.iceberg_table import IcebergTableOfRows
from tidelog.spark.pipelines.lake_values import VALUES, WHOLE
from tidelog.spark.pipelines.object_store import store_access
from tidelog.spark.pipelines.parquet_table import ParquetTable
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption
from tidelog.spark.pipelines.tables import FROM_TABLE, RESTART, Record, claim, source_of

MIB = 1024 * 1024
STAGE = "lake"
ADD = "add"
FORMATS = ("delta", "parquet", "iceberg")
UNFIT = "does not match the schema"
"""The reason of dead letters."""


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


def into(
    table: DeltaTableOfRows | IcebergTableOfRows, query: str, *, every: int, target: int
) -> Callable[[Any, int], None]:
    """The function for foreachBatch; after every `every` batches small files are merged (0: never)."""

    def batch(frame: Any, number: int) -> None:
        table.add(frame, number, query)
        if every and number % every == every - 1:
            table.compact(target)

    return batch


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    every, target = compaction(plan)
    check_format(plan)
    if plan["values"] not in VALUES:
        raise WrongOption(f"option 'values' is {', '.join(VALUES)}, not {plan['values']!r}")
    if plan[RESTART] not in ("", FROM_TABLE):
        raise WrongOption(f"option {RESTART!r} is {FROM_TABLE}, or left out, not {plan[RESTART]!r}")
    with plan.access.lookup_admin() as admin:
        output_topics.existing_topics(admin, "topic", [plan["topic"]])
    dead, values = plan["dead"], VALUES[plan["values"]]
    if dead:
        output_topics.create_topics_like(plan.access, "topic", plan["topic"], (dead,))

    def fill() -> Any:
        table = table_of(spark, plan)
        known = table.record()
        schema = schema_of(spark, plan, known)
        rows = values.rows(plan, plan.records(spark, plan["topic"]), schema, ())
        rows = rows.where("_malformed is null") if dead else rows
        frame, columns = partitioned(rows, plan["partition"])
        record = Record(source_of(plan.access, plan["topic"]), schema.json(), plan["partition"])
        query = claim(table, plan, spark, STAGE, record, frame, columns)
        if known is not None and isinstance(table, DeltaTableOfRows):
            table.evolve(known._replace(schema=record.schema), frame.schema)
        if isinstance(table, ParquetTable):
            writer = frame.writeStream.format("parquet").option("path", table.place).partitionBy(*columns)
        else:
            writer = frame.writeStream.foreachBatch(into(table, query, every=every, target=target * MIB))
        return plan.start(spark, writer, STAGE)

    def reject() -> Any:
        from pyspark.sql import functions as f

        schema = schema_of(spark, plan, table_of(spark, plan).record())
        records = plan.records(spark, plan["topic"])
        records = records.withColumn(WHOLE, f.struct(*records.columns, f.lit(UNFIT).alias(dead_letters.REASON)))
        rows = values.rows(plan, records, schema, (WHOLE,)).where("_malformed is not null").select(f"{WHOLE}.*")
        return plan.to_topics(dead_letters.letters(rows, dead), "dead")

    return [Stage(STAGE, fill), *([Stage("dead", reject)] if dead else [])]


def schema_of(spark: Any, plan: Plan, known: Record | None) -> Any:
    """The columns of the values. With evolve=add, those of the table so far, and behind them what the newest schema has
    more; a column whose type changed stays as it is."""
    from pyspark.sql.types import StructType

    values = VALUES[plan["values"]]
    if known is None or plan["evolve"] != ADD:
        return values.schema(spark, plan, known.schema if known else "")
    before, newest = StructType.fromJson(json.loads(known.schema)), values.schema(spark, plan, "")
    names = {name.lower() for name in before.fieldNames()}  # Spark's are the same in any case
    return StructType([*before.fields, *(field for field in newest.fields if field.name.lower() not in names)])


def check_format(plan: Plan) -> None:
    """WrongOption for a format that there is not, or that does not fit other options."""
    if plan["message"] and plan["values"] != "protobuf":
        raise WrongOption(f"option 'message' is for values=protobuf, not for values={plan['values']}")
    if plan["evolve"] not in ("", ADD):
        raise WrongOption(f"option 'evolve' is {ADD}, or left out, not {plan['evolve']!r}")
    if plan["evolve"] and plan["format"] != "delta":
        raise WrongOption(f"option 'evolve' is for Delta, not for format={plan['format']}")
    if plan["evolve"] and plan["values"] == "json" and not plan["schema"]:
        raise WrongOption("option 'evolve' requires option 'schema' for values=json: it says which columns to add")
    if plan["format"] not in FORMATS:
        raise WrongOption(f"option 'format' is {', '.join(FORMATS)}, not {plan['format']!r}")
    if plan["catalog"] and plan["format"] != "iceberg":
        raise WrongOption(f"option 'catalog' is for format=iceberg, not for format={plan['format']}")
    if plan["format"] != "iceberg":
        return
    if find_spec("pyiceberg") is None:
        raise WrongOption("format=iceberg requires pyiceberg: pip install 'tidelog[iceberg]'")
    if is_uri(plan["path"]) and not plan["catalog"]:
        raise WrongOption(
            "option 'catalog' is required for format=iceberg if option 'path' is a URI: a URL of SQLAlchemy, such as "
            "sqlite:////data/catalog.sqlite"
        )


def table_of(spark: Any, plan: Plan) -> DeltaTableOfRows | IcebergTableOfRows | ParquetTable:
    place = absolute(plan["path"])
    if plan["format"] == "parquet":
        return ParquetTable(place, spark)
    if plan["format"] == "iceberg":
        return IcebergTableOfRows(place, plan["catalog"], store_access(place, spark))
    return DeltaTableOfRows(place, store_access(place, spark))


def compaction(plan: Plan) -> tuple[int, int]:
    """After how many batches small files are merged, and the size of merged ones in MiB."""
    return _number(plan, "compact"), _number(plan, "target")


def _number(plan: Plan, name: str) -> int:
    if not plan[name].isdigit():
        raise WrongOption(f"option {name!r} must be an integer, not {plan[name]!r}")
    return int(plan[name])


PIPELINE = Pipeline(
    "A topic of JSON, Avro or Protobuf as a table of Delta Lake, Parquet or Iceberg.",
    {
        "topic": Option(None, "Topic to read."),
        "path": Option(None, "Folder or URI of the table; all executors must have access to it."),
        "format": Option("delta", "Table format: delta, parquet or iceberg."),
        "catalog": Option("", "Iceberg: SQLAlchemy's URL of the catalog (default: SQLite in the table's folder)."),
        "partition": Option("", "Partition columns, separated by ';': carrier; day=date(time_hour)."),
        "values": Option("json", "Format of values: json, or avro, protobuf or json-schema with a registry's schemas."),
        "schema": Option("", "DDL, or a .json file with a JSON or Spark schema (default: inferred)."),
        "evolve": Option("", "add: new columns of the schema are added to a Delta table at a start."),
        "registry": Option("", "URL of the schema registry; its API is Confluent's."),
        "registry-config": Option("", "File with options of confluent-kafka's SchemaRegistryClient."),
        "subject": Option("", "Subject of the schema in the registry (default: TOPIC-value)."),
        "message": Option("", "Protobuf: full name of the message (default: the first of the schema)."),
        "dead": Option("", "Topic of values that do not match the schema (default: rows with _malformed)."),
        "compact": Option("20", "Delta: merge small files after this many batches; 0 disables merging."),
        "target": Option("128", "Delta: target size of merged files in MiB."),
        "restart": Option("", "table: a checkpoint that does not fit the table is replaced by one that does."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("topic", "format", "catalog", "partition", "values", "message", "dead"),
)
