"""A table of Parquet files by Spark's own file sink.

The sink's log, `_spark_metadata`, names the files of each batch. Spark reads the files in the log only; other readers
may see part of a batch, and files of attempts that failed. Batches have the numbers of the query's checkpoint: the sink
skips a batch whose number is in its log, even if another query wrote it. So a table belongs to one query; its ID is
stored beside the log.
"""

import json
from collections.abc import Sequence
from typing import Any

from tidelog.spark.pipelines.checkpoints import Progress, last_batch
from tidelog.spark.pipelines.folders import Folder, folder_of
from tidelog.spark.pipelines.plan import Plan, WrongOption
from tidelog.spark.pipelines.tables import Record, claim, source_of

LOG = "_spark_metadata"
RECORD = "_tidelog.json"
QUERY = "query"


class ParquetTable:
    """With `adopts` it takes over a table of an earlier version, which has no record, if the numbers of the batches
    agree with the checkpoint's."""

    def __init__(self, place: str, spark: Any, *, adopts: bool = False) -> None:
        self._folder: Folder = folder_of(place, spark)
        self._spark = spark
        self._adopts = adopts
        self.place = self._folder.text

    def record(self) -> Record | None:
        text = self._folder.read(RECORD)
        names = [] if text else self._folder.names()
        if names and not (self._adopts and LOG in names):
            raise WrongOption(f"{self.place} has files that are not of this pipeline: give another path")
        return None if text is None else Record.from_json(text)

    def create(self, record: Record, schema: Any, columns: Sequence[str], query: str) -> None:  # noqa: ARG002
        if not self._folder.create(RECORD, record.to_json(query=query)):
            raise WrongOption(f"another query began to write {self.place} at the same time: give another path")

    def agrees(self, found: Progress) -> bool:
        """Of a query with a checkpoint older than the table, the next batches have numbers that are in the log."""
        text = self._folder.read(RECORD)
        is_own = text is None or json.loads(text)[QUERY] == found.query
        return is_own and found.committed <= last_batch(self._folder, LOG) <= found.begun

    def ends(self) -> dict[int, int]:
        from pyspark.sql import functions as f

        if last_batch(self._folder, LOG) < 0:
            return {}
        rows = self._spark.read.parquet(self.place).groupBy("_partition").agg(f.max("_offset").alias("last"))
        return {partition: last + 1 for partition, last in rows.collect()}

    def hand_over(self, query: str) -> int:
        record = json.loads(self._folder.read(RECORD) or "{}")
        self._folder.write(RECORD, json.dumps({**record, QUERY: query}))
        return last_batch(self._folder, LOG)


def write(plan: Plan, spark: Any, frame: Any, stage: str, place: str, topic: str) -> Any:
    """The running query of a stage that writes the rows of a topic to a table."""
    table = ParquetTable(place, spark, adopts=True)
    claim(table, plan, spark, stage, Record(source_of(plan.access, topic)), frame, [])
    return plan.start(spark, frame.writeStream.format("parquet").option("path", table.place), stage)
