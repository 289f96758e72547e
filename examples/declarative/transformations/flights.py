"""Reads flights from a topic and writes them to tables, and to topics through the sink.

TIDELOG_BOOTSTRAP is the cluster's bootstrap address.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidelog.spark.pipelines import flights

BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")
RESULTS, DEAD = "flights.delays", "flights.dead"

spark = SparkSession.active()

records = (
    spark.readStream.format("tidelog")
    .option("kafka.bootstrap.servers", BOOTSTRAP)
    .option("subscribe", "flights")
    .option("startingOffsets", "earliest")
    .load()
)
# Not inside a function of the graph: transformWithState analyzes its input's columns, which Spark forbids there.
found = flights.outcomes(records, flights.weather_table(spark), results=RESULTS, dead=DEAD, delay="2 days")


@dp.table(comment="Closed hours, and the records that are in no hour, as they are written to topics")
def outcomes() -> DataFrame:
    return found


@dp.table(comment="Delays by carrier, airport and hour, with the weather")
def delays() -> DataFrame:
    row = f.from_json(f.col("value").cast("string"), flights.RESULT).alias("row")
    return spark.readStream.table("outcomes").where(f.col("topic") == RESULTS).select(row).select("row.*")


@dp.materialized_view(comment="The carriers, longest mean delay first")
def carriers() -> DataFrame:
    mean = f.sum("arrival_delay") / f.sum("arrived")
    sums = spark.read.table("delays").groupBy("carrier")
    return sums.agg(mean.alias("mean_delay"), f.sum("flights").alias("flights")).orderBy(f.desc("mean_delay"))


dp.create_sink("topics", "tidelog", {"kafka.bootstrap.servers": BOOTSTRAP, "exactlyOnce": "true"})


@dp.append_flow(target="topics")
def publish() -> DataFrame:
    return spark.readStream.table("outcomes")
