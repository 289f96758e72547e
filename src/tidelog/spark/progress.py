"""Where a streaming query is, from the progress that Spark reports of its sources.

`tidelog`, `kafka` and other sources with offsets like `{"topic": {"0": 23}}` have partitions; the rest have none here.
"""

import json
from collections.abc import Mapping
from typing import Any

from tidelog.model import TopicPartition
from tidelog.spark.reading.offsets import Offsets


def offsets(value: Any) -> Offsets:
    """The offsets in a source's `startOffset`, `endOffset` or `latestOffset`, as a text or not; empty if there are
    none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, Mapping):
        return {}
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, places in value.items()
        if isinstance(places, Mapping) and not topic.startswith("@")
        for partition, offset in places.items()
        if isinstance(offset, int) and partition.isdecimal()
    }


def behind(source: Mapping[str, Any]) -> Offsets:
    """How many offsets each partition of a source still had to read when the batch was planned."""
    end = offsets(source.get("endOffset"))
    return {name: max(0, offset - end.get(name, 0)) for name, offset in offsets(source.get("latestOffset")).items()}
