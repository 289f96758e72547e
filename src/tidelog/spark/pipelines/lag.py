"""Pipeline *lag*: how far each group is behind in each partition over time, and an alert when it stops.

The commits come from `__consumer_offsets`, the partitions' ends from a source of their own (`end_offsets`). `group_lag`
joins both for each partition. The results are two topics: lags, and alerts when a group has stopped or resumed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.pipelines import output_topics, parquet_table
from tidelog.spark.pipelines.end_offsets import TOPICS, EndsSource
from tidelog.spark.pipelines.group_lag import LAG, OUTCOME, GroupLagProcessor
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption, milliseconds

OFFSETS_TOPIC = "__consumer_offsets"
COMMIT_SCHEMA = "topic string, partition int, name string, committed bigint, at bigint, place bigint"
OFFSET_COMMITS = (0, 1)
"""The types of keys of offset commits, before Kafka 0.9 and since."""


class Commit(NamedTuple):
    """`committed` is None if the group's offset was deleted. `at` in milliseconds; `place` is the record's offset: a
    group's commits are in one partition, in order."""

    topic: str
    partition: int
    name: str
    committed: int | None
    at: int
    place: int


def decode_commit(key: bytes | None, value: bytes | None, at: int, place: int) -> Commit | None:
    """The commit in a record; None for other kinds of records."""
    from tidelog.wire import codec
    from tidelog.wire.messages.groups.group_records import OffsetCommitKey, OffsetCommitValue

    if key is None or len(key) < 2 or int.from_bytes(key[:2]) not in OFFSET_COMMITS:
        return None
    named = codec.decode(OffsetCommitKey, 0, key[2:])
    if value is None:
        return Commit(named.topic, named.partition, named.group, None, at, place)
    commit = codec.decode(OffsetCommitValue, int.from_bytes(value[:2]), value[2:])
    return Commit(named.topic, named.partition, named.group, commit.offset, commit.commit_timestamp, place)


def decode_commits(batches: Iterator[Any]) -> Iterator[Any]:
    """For mapInArrow: columns key, value, at and offset → COMMIT_SCHEMA."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("name", pa.string()),
            ("committed", pa.int64()),
            ("at", pa.int64()),
            ("place", pa.int64()),
        ]
    )
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("key", "value", "at", "offset")]
        found = [commit for row in zip(*columns, strict=True) if (commit := decode_commit(*row)) is not None]
        yield pa.RecordBatch.from_pylist([commit._asdict() for commit in found], schema)


REPORT_COLUMNS = (
    "name string, topic string, partition int, committed bigint, end bigint, lag bigint, at bigint, since bigint"
)
"""The columns of a value of either topic besides `kind`."""


def outcomes(records: Any, ends: Any, groups: str, stopped_after: int) -> Any:
    """Lags and alerts, with the columns of OUTCOME, from the records of `__consumer_offsets` and the rows of
    `tidelog.ends`."""
    from pyspark.sql import functions as f

    raw = records.select("key", "value", f.unix_millis("timestamp").alias("at"), "offset")
    known = raw.mapInArrow(decode_commits, COMMIT_SCHEMA).where(f.col("name").rlike(f"^(?:{groups})$"))
    null = f.lit(None)
    both = known.withColumn("end", null.cast("bigint")).unionByName(
        ends.withColumn("name", null.cast("string"))
        .withColumn("committed", null.cast("bigint"))
        .withColumn("place", null.cast("bigint"))
    )
    return both.groupBy("topic", "partition").transformWithState(
        statefulProcessor=GroupLagProcessor(stopped_after),
        outputStructType=OUTCOME,
        outputMode="Append",
        timeMode="None",
    )


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    stopped_after = milliseconds("stopped-after", plan["stopped-after"])
    lags, alerts = plan["lags"], plan["alerts"]
    _prepare(plan.access, lags, alerts)

    def watch() -> Any:
        from pyspark.sql import functions as f

        spark.dataSource.register(EndsSource)
        reader = spark.readStream.format(EndsSource.name()).options(**plan.reaching)
        ends = reader.option(TOPICS, plan["topics"]).load()
        found = outcomes(plan.records(spark, OFFSETS_TOPIC), ends, plan["groups"], stopped_after)
        name = f.concat_ws("|", "name", "topic", "partition").cast("binary")
        topic = f.when(f.col("kind") == LAG, lags).otherwise(alerts)
        rows = found.select(topic.alias("topic"), name.alias("key"), f.to_json(f.struct("*")).alias("value"))
        return plan.to_topics(rows, "lag")

    def tabulate() -> Any:
        from pyspark.sql import functions as f

        row = f.from_json(f.col("value").cast("string"), REPORT_COLUMNS).alias("row")
        rows = plan.records(spark, lags).select(row).select("row.*")
        rows = rows.withColumn("at", f.timestamp_millis("at")).withColumn("since", f.timestamp_millis("since"))
        return parquet_table.write(plan, spark, rows, "table", plan["table"] or plan.place("lags"), lags)

    return [Stage("lag", watch), Stage("table", tabulate)]


def _prepare(access: Access, *topics: str) -> None:
    """Create this pipeline's topics, with as many replicas as `__consumer_offsets` has."""
    with access.lookup_admin() as admin:
        try:
            replicas = output_topics.topic_shapes(admin, [OFFSETS_TOPIC])[OFFSETS_TOPIC].replicas
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise WrongOption(
                f"there is no topic {OFFSETS_TOPIC} yet, as no group has ever committed here: start again when one has"
            ) from None
        output_topics.create_topics(admin, dict.fromkeys(topics, output_topics.TopicShape(1, replicas)))
        output_topics.wait_for_topics(admin, topics)


PIPELINE = Pipeline(
    "Lag of groups in each partition over time, with alerts.",
    {
        "groups": Option(".*", "Regular expression of group names."),
        "topics": Option(".*", "Regular expression of topic names."),
        "stopped-after": Option("5 minutes", "How long a group with lag may make no progress before an alert."),
        "lags": Option("groups.lag", "Topic of lags, created if missing."),
        "alerts": Option("groups.alerts", "Topic of alerts, created if missing."),
        "table": Option("", "Folder of the Parquet table of lags (default: in the checkpoint)."),
        "batch": Option("", "Maximum commits of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("lags", "alerts"),
)
