"""The pipelines by name."""

from collections.abc import Mapping

from tidelog.spark.pipelines import flights
from tidelog.spark.pipelines.lag import pipeline as lag
from tidelog.spark.pipelines.lake import pipeline as lake
from tidelog.spark.pipelines.mirror import pipeline as mirror
from tidelog.spark.pipelines.plan import Pipeline

PIPELINES: Mapping[str, Pipeline] = {
    "flights": flights.PIPELINE,
    "lag": lag.PIPELINE,
    "mirror": mirror.PIPELINE,
    "lake": lake.PIPELINE,
}
