"""Where PySpark finds the format `tidelog`: it imports every module named `pyspark_*` at start, so this is light."""

from tidelog.spark.source import DefaultSource

__all__ = ["DefaultSource"]
