"""The pipelines by name."""

from collections.abc import Mapping

from tidelog.spark.pipelines import cdc, flights, lag, lake, mirror, replay
from tidelog.spark.pipelines.plan import Pipeline

PIPELINES: Mapping[str, Pipeline] = {
    "flights": flights.PIPELINE,
    "lag": lag.PIPELINE,
    "mirror": mirror.PIPELINE,
    "lake": lake.PIPELINE,
    "cdc": cdc.PIPELINE,
    "replay": replay.PIPELINE,
}
