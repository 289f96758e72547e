"""What pipelines need and a plain installation has not."""

from collections.abc import Mapping
from importlib.util import find_spec
from shutil import which
from typing import TYPE_CHECKING

from tidelog.cli.options import Refused

if TYPE_CHECKING:
    from tidelog.spark.pipelines.plan import Pipeline


def pipelines() -> "Mapping[str, Pipeline]":
    """Those there are; Refused where Spark is not installed."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if find_spec(name) is None]
    if missing:
        raise Refused(f"Pipelines need {missing[0]}: pip install 'tidelog[spark]'.")
    from tidelog.spark.pipelines.table import PIPELINES

    return PIPELINES


def check_java() -> None:
    """Refused where there is no Java runtime, which Spark runs on."""
    from os import environ

    if which("java") is None and "JAVA_HOME" not in environ:
        raise Refused("Spark needs a Java runtime, version 17 or newer, as `java` on the path or in JAVA_HOME.")
