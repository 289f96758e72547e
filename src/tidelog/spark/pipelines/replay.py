"""Pipeline *replay*: dead letters back to the topics that they came from, after what made them dead was mended."""

from collections.abc import Sequence
from typing import Any

from tidelog.spark.pipelines import output_topics
from tidelog.spark.pipelines.dead_letters import PREFIX
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage

STAGE = "replay"


def replayed(letters: Any, *, topic: str, reason: str) -> Any:
    """Rows for the sink: keys, values and partitions as they were. `topic` replaces the letters' own, `reason` chooses
    among them; "" for neither. A letter without a topic is an error."""
    from pyspark.sql import functions as f

    def header(name: str) -> Any:
        return f.expr(f"try_element_at(filter(headers, header -> header.key = '{PREFIX}{name}'), -1).value").cast(
            "string"
        )

    if reason:
        letters = letters.where(header("reason") == reason)
    missing = f.concat(
        f.lit(f"no header {PREFIX}topic in the record at offset "), "offset", f.lit(": give option 'topic'")
    )
    origin = f.lit(topic) if topic else f.coalesce(header("topic"), f.raise_error(missing).cast("string"))
    others = f.expr(f"filter(headers, header -> not startswith(header.key, '{PREFIX}'))")
    partition = f.lit(None) if topic else header("partition")
    return letters.select(
        origin.alias("topic"), "key", "value", partition.cast("int").alias("partition"), others.alias("headers")
    )


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    with plan.access.lookup_admin() as admin:
        for option in ("dead", *(["topic"] if plan["topic"] else [])):
            output_topics.existing_topics(admin, option, [plan[option]])

    def send() -> Any:
        letters = plan.records(spark, plan["dead"], includeHeaders="true")
        return plan.to_topics(replayed(letters, topic=plan["topic"], reason=plan["reason"]), STAGE)

    return [Stage(STAGE, send)]


PIPELINE = Pipeline(
    "Dead letters back to the topics that they came from.",
    {
        "dead": Option(None, "Topic of dead letters."),
        "topic": Option("", "Topic to write to (default: the one that each letter came from)."),
        "reason": Option("", "Only letters with this reason (default: all)."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("dead", "topic", "reason"),
)
