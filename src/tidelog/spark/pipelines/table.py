"""The pipelines by name."""

from collections.abc import Mapping

from tidelog.spark.pipelines import flights
from tidelog.spark.pipelines.plan import Pipeline

PIPELINES: Mapping[str, Pipeline] = {"flights": flights.PIPELINE}
