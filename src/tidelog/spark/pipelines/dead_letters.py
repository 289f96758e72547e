"""Records that a pipeline cannot use, unchanged in a topic of their own: headers say why, and where each was."""

from typing import Any

REASON = "reason"
PREFIX = "tidelog."
"""Of the headers `tidelog.reason`, `tidelog.topic`, `tidelog.partition` and `tidelog.offset`."""


def letters(rows: Any, topic: str) -> Any:
    """Rows for the sink from the source's records that have a `reason`."""
    from pyspark.sql import functions as f

    return rows.where(f.col(REASON).isNotNull()).select(f.lit(topic).alias("topic"), "key", "value", headers())


def headers() -> Any:
    """The column of headers, from the columns reason, topic, partition and offset."""
    from pyspark.sql import functions as f

    def header(name: str) -> Any:
        value = f.col(name).cast("string").cast("binary").alias("value")
        return f.struct(f.lit(PREFIX + name).alias("key"), value)

    return f.array(*(header(name) for name in (REASON, "topic", "partition", "offset"))).alias("headers")
