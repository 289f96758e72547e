"""Pipeline *mirror*: copies topics to another cluster, each record once, and translates the groups' offsets.

A record goes to the partition of its own number, with its offset in the source cluster in a header. As a partition is
written in order, these offsets rise with those of the copy, and `offset_translation` finds one by binary search. A
copy has the time of its copying; the record's own time is in a second header.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread
from typing import Any

from tidelog.spark.access import Access
from tidelog.spark.pipelines import output_topics
from tidelog.spark.pipelines.offset_translation import OFFSET, TIME, translate
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption

EVERY_S = 10.0


def copies(records: Any, prefix: str) -> Any:
    """Rows for the sink: the same key, value and partition, and the headers with two more."""
    from pyspark.sql import functions as f

    def header(name: str, column: Any) -> Any:
        return f.struct(f.lit(name).alias("key"), column.cast("string").cast("binary").alias("value"))

    own = f.array(header(OFFSET, f.col("offset")), header(TIME, f.unix_millis("timestamp")))
    kind = "array<struct<key:string,value:binary>>"
    headers = f.concat(f.coalesce("headers", f.array().cast(kind)), own)
    return records.select(
        f.concat(f.lit(prefix), "topic").alias("topic"), "partition", "key", "value", headers.alias("headers")
    )


class OffsetTranslationQuery:
    """Has the interface of a Spark query: translates offsets repeatedly until it is stopped, or once. An error ends
    it."""

    def __init__(self, work: Callable[[], int], every_s: float | None) -> None:
        self._work = work
        self._every_s = every_s
        self._ended = Event()
        self._failure: Exception | None = None
        self.recentProgress: list[Mapping[str, Any]] = []
        self._thread = Thread(target=self._run, name="mirror offsets", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802  Spark's name
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        try:
            while True:
                done = self._work()
                self.recentProgress = [*self.recentProgress[-9:], _report(number, done)]
                number += 1
                if self._every_s is None or self._ended.wait(self._every_s):
                    return
        except Exception as error:  # noqa: BLE001  reported by `exception`
            self._failure = error


def _report(number: int, done: int) -> dict[str, Any]:
    return {"batchId": number, "numInputRows": done, "sources": []}


def stages(spark: Any, plan: Plan) -> Sequence[Stage]:
    topics = plan.topics("topics")
    home, away = plan.access, plan.access_away(plan["to"])
    named = {topic: f"{plan['prefix']}{topic}" for topic in topics}
    _prepare(home, away, named, plan["replicas"])

    def copy() -> Any:
        records = plan.records(spark, ",".join(topics), includeHeaders="true")
        return plan.to_topics(copies(records, plan["prefix"]), "copy", away.bootstrap)

    def offsets() -> Any:
        return OffsetTranslationQuery(
            lambda: len(translate(home, away, named, plan["groups"])), None if plan.once else EVERY_S
        )

    return [Stage("copy", copy), *([Stage("offsets", offsets)] if plan["groups"] else [])]


def _prepare(home: Access, away: Access, named: Mapping[str, str], replicas: str) -> None:
    """Create the copies with as many partitions as the source topics; an existing one with fewer is an error."""
    with home.lookup_admin() as here:
        wanted = {
            named[topic]: shape._replace(replicas=int(replicas))
            for topic, shape in output_topics.existing_topics(here, "topics", named).items()
        }
    with away.lookup_admin() as there:
        output_topics.create_topics(there, wanted)
        for topic, shape in output_topics.wait_for_topics(there, wanted).items():
            if shape.partitions < wanted[topic].partitions:
                raise WrongOption(
                    f"topic {topic} has {shape.partitions} partitions there and {wanted[topic].partitions} at home: "
                    "add partitions, or give option 'prefix'"
                )


PIPELINE = Pipeline(
    "Copy topics and group offsets to another cluster, each record once.",
    {
        "topics": Option(None, "Topics to copy, separated by commas."),
        "to": Option(None, "Target cluster: host:port,…"),
        "prefix": Option("", "Prefix of the topic names in the target cluster."),
        "replicas": Option("-1", "Replicas of new topics; -1 uses the target cluster's default."),
        "groups": Option(".*", "Regular expression of the groups to translate; empty for none."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("prefix",),
    lists=("topics",),
    clusters=("to",),
)
