"""The table of `tidelog pipeline`, and `list`."""

import click

from tidelog.cli.lazy import Command, LazyGroup

COMMANDS = {
    "list": Command("tidelog.cli.pipeline.listing:listing", "Name the pipelines and their options."),
    "run": Command("tidelog.cli.pipeline.running:run", "Run one on Spark."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def pipeline() -> None:
    """Pipelines over topics that run on Spark: pip install 'tidelog[spark]', and a Java runtime.

    Each works with any Kafka cluster, keeps its place in a checkpoint, and goes on there after any crash.
    """
