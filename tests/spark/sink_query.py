"""A query from one topic to another, exactly once, in a process that can be killed: it ends when its input has ended and
everything that is there is written. `python -m tests.spark.sink_query BOOTSTRAP SOURCE TARGET CHECKPOINT`; a line for
each batch that it sees the end of. Its session has no jar besides Spark's own."""

import os
import select
import sys

PER_BATCH = 300
TASK_FAILURES = 3


def main(bootstrap: str, source: str, target: str, checkpoint: str) -> None:
    os.environ.update(PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    from pyspark.sql import SparkSession

    from tests.spark.settings import SHORT_JVM

    spark = (
        SparkSession.builder.appName("tidelog sink")
        .master(f"local[2,{TASK_FAILURES}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", SHORT_JVM)
        .config("spark.log.level", "OFF")
        .config("spark.python.unix.domain.socket.enabled", "true")  # see tests/spark/settings.py
        .getOrCreate()
    )
    assert spark.sparkContext._jsc.sc().listJars().isEmpty(), "the source and the sink need no jar"
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", PER_BATCH).load().select("key", "value")
    writer = frame.writeStream.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    writer = writer.option("topic", target).option("exactlyOnce", "true").option("checkpointLocation", checkpoint)
    query = writer.start()
    told = -1
    while not select.select([sys.stdin], [], [], 0)[0]:
        if query.awaitTermination(0.2):
            return
        progress = query.lastProgress
        if progress and progress["batchId"] > told:
            told = progress["batchId"]
            sys.stdout.write(f"batch {told}\n")
            sys.stdout.flush()
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
