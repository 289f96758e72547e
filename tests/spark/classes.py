"""Has a JVM load the classes that most queries need, and ends it: `python -m tests.spark.classes FOLDER FLAGS`.
`tests/jvm.py` gives the flags with which the JVM writes these classes down."""

import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession, functions

from tests.spark.settings import SETTINGS, end

CONNECT = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": "0",
}
"""What `spark-pipelines` starts."""


def main(folder: Path, flags: str) -> None:
    conf = SparkConf().setAll({**SETTINGS, **CONNECT, "spark.driver.extraJavaOptions": flags}.items())
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    gateway = SparkContext._gateway
    table, counts = str(folder / "table"), str(folder / "counts")
    spark.range(9).select("id", functions.timestamp_seconds("id").alias("time")).write.parquet(table)
    rows = spark.readStream.schema("id long, time timestamp").parquet(table).withWatermark("time", "1 second")
    hours = rows.groupBy(functions.window("time", "1 hour")).count()
    writer = hours.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.start(counts, format="parquet").awaitTermination()
    spark.read.parquet(counts).orderBy("count").collect()
    spark.stop()
    end(gateway)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
