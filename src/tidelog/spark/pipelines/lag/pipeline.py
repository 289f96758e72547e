"""The stages of the lag: commits and ends to lags and alerts, and the lags to a table."""

from collections.abc import Sequence
from typing import Any

from tidelog.errors import ApiError, ErrorCode
from tidelog.spark.access import Access
from tidelog.spark.pipelines import ground
from tidelog.spark.pipelines.lag import commits
from tidelog.spark.pipelines.lag.ends import TOPICS, EndsSource
from tidelog.spark.pipelines.lag.watching import LAG, OUTCOME, Watching
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption, milliseconds

TELLS = "name string, topic string, partition int, committed bigint, end bigint, lag bigint, at bigint, since bigint"
"""What a value of either topic holds beside `kind`."""


def outcomes(records: Any, ends: Any, groups: str, stopped_after: int) -> Any:
    """Lags and alerts, as OUTCOME says, from the records of `__consumer_offsets` and the rows of `tidelog.ends`."""
    from pyspark.sql import functions as f

    raw = records.select("key", "value", f.unix_millis("timestamp").alias("at"), "offset")
    known = raw.mapInArrow(commits.commits, commits.SCHEMA).where(f.col("name").rlike(f"^(?:{groups})$"))
    null = f.lit(None)
    both = known.withColumn("end", null.cast("bigint")).unionByName(
        ends.withColumn("name", null.cast("string"))
        .withColumn("committed", null.cast("bigint"))
        .withColumn("place", null.cast("bigint"))
    )
    return both.groupBy("topic", "partition").transformWithState(
        statefulProcessor=Watching(stopped_after), outputStructType=OUTCOME, outputMode="Append", timeMode="None"
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
        found = outcomes(plan.records(spark, commits.TOPIC), ends, plan["groups"], stopped_after)
        name = f.concat_ws("|", "name", "topic", "partition").cast("binary")
        topic = f.when(f.col("kind") == LAG, lags).otherwise(alerts)
        rows = found.select(topic.alias("topic"), name.alias("key"), f.to_json(f.struct("*")).alias("value"))
        return plan.to_topics(rows, "lag")

    def tabulate() -> Any:
        from pyspark.sql import functions as f

        row = f.from_json(f.col("value").cast("string"), TELLS).alias("row")
        rows = plan.records(spark, lags).select(row).select("row.*")
        rows = rows.withColumn("at", f.timestamp_millis("at")).withColumn("since", f.timestamp_millis("since"))
        folder = plan["table"] or str(plan.checkpoint / "lags")
        return plan.start(rows.writeStream.format("parquet").option("path", folder), "table")

    return [Stage("lag", watch), Stage("table", tabulate)]


def _prepare(access: Access, *topics: str) -> None:
    """The topics of this pipeline, with as many replicas as the one that it reads."""
    with access.looking() as admin:
        try:
            replicas = ground.shapes(admin, [commits.TOPIC])[commits.TOPIC].replicas
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise WrongOption(
                f"there is no topic {commits.TOPIC} yet, as no group has ever committed here: start again when one has"
            ) from None
        ground.make(admin, dict.fromkeys(topics, ground.Shape(1, replicas)))
        ground.wait_for(admin, topics)


PIPELINE = Pipeline(
    "How far groups are behind in each partition over time, with alerts when one stops.",
    {
        "groups": Option(".*", "A regular expression of the groups."),
        "topics": Option(".*", "A regular expression of the topics."),
        "stopped-after": Option("5 minutes", "How long a group that has something to read may stand still."),
        "lags": Option("groups.lag", "The topic of lags, which is created where it is missing."),
        "alerts": Option("groups.alerts", "The topic of alerts, which is created where it is missing."),
        "table": Option("", "The folder of a Parquet table of the lags; by default one in the checkpoint."),
        "batch": Option("", "The most commits of a micro-batch; by default all there are."),
    },
    stages,
    fixed=("lags", "alerts"),
)
