"""Pipeline *cdc*: changes of a database's table, as Debezium writes them in JSON, as a Delta table of the rows that are
there now.

`changes` reads Debezium's envelopes, `cdc_table` merges them. Changes that cannot be read are dead letters, which a
second query finds in the same records.
"""

import json
from collections.abc import Sequence
from typing import Any

from tidelog.spark.pipelines import dead_letters
from tidelog.spark.pipelines.cdc_table import DELETED, DeltaTableByKey
from tidelog.spark.pipelines.folders import absolute
from tidelog.spark.pipelines.json_schema import LOOKED_AT, inferred, resolve
from tidelog.spark.pipelines.lake import MIB, compaction, into
from tidelog.spark.pipelines.object_store import store_access
from tidelog.spark.pipelines.output_topics import create_topics_like
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption
from tidelog.spark.pipelines.tables import FROM_TABLE, RESTART, Record, claim, source_of

STAGE = "changes"
UPSERTS, DELETE = ("c", "u", "r"), "d"
"""Debezium's operations: created, updated, read by a snapshot; deleted."""
OWN = {"_partition": "int", "_offset": "bigint", "_timestamp": "timestamp"}
"""Columns besides those of the rows: where the change was that made a row what it is."""
MALFORMED = "_malformed"


def changes(records: Any, schema: Any) -> Any:
    """The source's records with the change's row as `row`, `DELETED`, and a `reason` if it is not a change. `schema` is
    that of the table: its columns that are not nullable are the key. Tombstones are left out."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BooleanType, StringType, StructField, StructType

    def nullable(fields: Any) -> Any:
        return StructType([StructField(field.name, field.dataType) for field in fields])

    def parsed(column: str, inside: Any) -> Any:
        """With Debezium's schema around it (`payload`), or without."""
        fields = [*inside, StructField("payload", nullable(inside)), StructField(MALFORMED, StringType())]
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
        return f.from_json(f.col(column).cast("string"), StructType(fields), how)

    key = key_of(schema)
    body = nullable(schema.fields)
    envelope = [StructField("op", StringType()), StructField("after", body)]
    read = records.where(f.col("value").isNotNull()).select(
        *records.columns,
        parsed("value", envelope).alias("v"),
        parsed("key", [StructField(name, schema[name].dataType) for name in key]).alias("k"),
    )
    op, after = f.coalesce("v.payload.op", "v.op"), f.coalesce("v.payload.after", "v.after")
    keys = {name: f.coalesce(f.col(f"k.payload.`{name}`"), f.col(f"k.`{name}`")) for name in key}
    is_delete = op == DELETE
    reason = f.when(f.col("v").isNull() | f.col(f"v.{MALFORMED}").isNotNull(), "no JSON of a change")
    reason = reason.when(op.isNull(), "no op")
    reason = reason.when(~op.isin(*UPSERTS, DELETE), f.concat(f.lit("unknown op "), op))
    for name, found in keys.items():
        reason = reason.when(found.isNull(), f"no {name} in the key")
    reason = reason.when(~is_delete & after.isNull(), "no row after the change")
    row = f.struct(
        *(keys.get(field.name, after[field.name]).alias(field.name) for field in schema.fields),
        *(f.col(name.removeprefix("_")).alias(name) for name in OWN),
        f.coalesce(is_delete, f.lit(False)).cast(BooleanType()).alias(DELETED),
    )
    return read.select(*records.columns, row.alias("row"), reason.alias(dead_letters.REASON))


def key_of(schema: Any) -> list[str]:
    return [field.name for field in schema.fields if not field.nullable]


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    every, target = compaction(plan)
    if plan[RESTART] not in ("", FROM_TABLE):
        raise WrongOption(f"option {RESTART!r} is {FROM_TABLE}, or left out, not {plan[RESTART]!r}")
    dead = plan["dead"] or f"{plan['topic']}.dead"
    create_topics_like(plan.access, "topic", plan["topic"], (dead,))

    def fill() -> Any:
        table = table_of(spark, plan)
        known = table.record()
        schema = schema_of(spark, plan, known.schema if known else "")
        table.key = key_of(schema)
        found = changes(plan.records(spark, plan["topic"]), schema).where(f"{dead_letters.REASON} is null")
        frame = found.select("row.*")
        record = Record(source_of(plan.access, plan["topic"]), schema.json())
        query = claim(table, plan, spark, STAGE, record, frame.drop(DELETED), [])
        return plan.start(
            spark, frame.writeStream.foreachBatch(into(table, query, every=every, target=target * MIB)), STAGE
        )

    def reject() -> Any:
        known = table_of(spark, plan).record()
        schema = schema_of(spark, plan, known.schema if known else "")
        return plan.to_topics(dead_letters.letters(changes(plan.records(spark, plan["topic"]), schema), dead), "dead")

    return [Stage(STAGE, fill), Stage("dead", reject)]


def table_of(spark: Any, plan: Plan) -> DeltaTableByKey:
    place = absolute(plan["path"])
    return DeltaTableByKey(place, store=store_access(place, spark))


def schema_of(spark: Any, plan: Plan, kept: str) -> Any:
    """The columns of the table. `kept` is the table's schema so far, "" for a new one."""
    from pyspark.sql.types import StructField, StructType

    def nullable(schema: Any) -> Any:
        return StructType([StructField(field.name, field.dataType) for field in schema.fields])

    before = StructType.fromJson(json.loads(kept)) if kept else None
    found = resolve(spark, plan, nullable(before).json() if before else "", lambda: _rows(spark, plan))
    if before is not None:
        key = key_of(before)
    else:
        key = [name.strip() for name in plan["key"].split(",") if name.strip()] or _keys(spark, plan)
    missing = [name for name in key if name not in found.fieldNames()]
    if missing or not key:
        known = ", ".join(found.fieldNames())
        raise WrongOption(f"option 'key': {', '.join(missing) or 'no name'} is not a column; expected some of: {known}")
    taken = sorted({*OWN, DELETED} & set(found.fieldNames()))
    if taken:
        raise WrongOption(f"option 'schema' has a column {taken[0]!r}, which the pipeline has itself")
    return StructType([StructField(field.name, field.dataType, field.name not in key) for field in found.fields])


def _texts(spark: Any, plan: Plan, *expressions: str) -> list[str]:
    """The first values of an expression over the records."""
    reader = spark.read.format("tidelog").options(**plan.reading(plan["topic"]), endingOffsets="latest")
    rows = reader.load().selectExpr(f"coalesce({', '.join(expressions)}) as text").where("text is not null")
    return [row.text for row in rows.limit(LOOKED_AT).collect()]


def _rows(spark: Any, plan: Plan) -> Any:
    value = "get_json_object(cast(value as string), '$.{}')"
    places = ("payload.after", "payload.before", "after", "before")
    texts = _texts(spark, plan, *(value.format(place) for place in places))
    if not texts:
        raise WrongOption(f"topic {plan['topic']} has no change from which to infer the schema; give option 'schema'")
    return inferred(spark, texts)


def _keys(spark: Any, plan: Plan) -> list[str]:
    text = "cast(key as string)"
    texts = _texts(spark, plan, f"get_json_object({text}, '$.payload')", f"get_json_object({text}, '$')")
    if not texts:
        raise WrongOption(f"records of topic {plan['topic']} have no keys of JSON; the table needs a primary key")
    return list(inferred(spark, texts).fieldNames())


PIPELINE = Pipeline(
    "Debezium's changes of a table as a Delta table of its rows.",
    {
        "topic": Option(None, "Topic of Debezium's changes in JSON, with keys."),
        "path": Option(None, "Folder or URI of the Delta table."),
        "key": Option("", "Columns of the key, separated by commas (default: those of the records' keys)."),
        "schema": Option("", "DDL, or a .json file with a JSON or Spark schema (default: inferred)."),
        "dead": Option("", "Topic of rejected records, with the reason as a header (default: TOPIC.dead)."),
        "compact": Option("20", "Merge small files after this many batches; 0 disables merging."),
        "target": Option("128", "Target size of merged files in MiB."),
        "restart": Option("", "table: a checkpoint that does not fit the table is replaced by one that does."),
        "batch": Option("100000", "Maximum records of a micro-batch; the driver holds its changes in memory."),
    },
    stages,
    fixed=("topic", "key", "dead"),
)
