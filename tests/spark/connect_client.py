"""A client of Spark Connect: `python -m tests.spark.connect_client URL FOLDER BOOTSTRAP TOPIC` runs pipelines and the sink,
and prints how a folder that it cannot reach is refused."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.spark.options import BOOTSTRAP, BadOption
from tidelog.spark.pipelines import lake, mirror
from tidelog.spark.pipelines.plan import Plan
from tidelog.spark.pipelines.running import run


def main(url: str, folder: str, bootstrap: str, topic: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    table = {"topic": topic, "path": f"{folder}/table", "dead": f"{topic}.dead"}
    for name, pipeline, options in (
        ("lake", lake.PIPELINE, table),
        ("mirror", mirror.PIPELINE, {"topics": topic, "to": bootstrap, "prefix": "copy."}),
    ):
        plan = Plan(bootstrap, Path(folder) / name, pipeline.complete(options), once=True)
        run(pipeline.stages(spark, plan), once=True, on_progress=lambda _: None)
    rows = spark.read.format("tidelog").option(BOOTSTRAP, bootstrap).option("subscribe", topic).load()
    writer = rows.select("value").write.format("tidelog").mode("append").option(BOOTSTRAP, bootstrap)
    for _ in range(2):
        writer.option("topic", f"{topic}.sink").option("exactlyOnce", "true").option("jobName", topic).save()
    away = Plan(bootstrap, "s3a://bucket/state", lake.PIPELINE.complete(table), once=True)
    try:
        run(lake.PIPELINE.stages(spark, away), once=True, on_progress=lambda _: None)
    except BadOption as error:
        sys.stdout.write(f"refused: {error}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
