"""Tidelog, or any Kafka cluster, as a Python data source of Spark: `spark.readStream.format("tidelog")`, without a jar.

`source.DefaultSource` is what PySpark finds. `reading` is the source, `writing` the sink, `pipelines` the queries of
`tidelog pipeline`. Options have the names of Spark's own Kafka connector.
"""

from typing import Any


def activate(spark: Any) -> None:
    """Make a session this thread's active one. Spark looks up sinks that are written in Python in the active session,
    and a new thread has none: there `frame.write.format("tidelog")` fails without this call."""
    spark.createDataFrame([], "nothing int")
