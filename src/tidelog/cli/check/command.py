"""The table of `tidelog check`."""

import click

from tidelog.cli.lazy import Command, LazyGroup

COMMANDS = {
    "run": Command("tidelog.cli.check.running:run", "Write to and read from a cluster for a while, then judge it."),
    "verify": Command("tidelog.cli.check.verifying:verify", "Judge a history that was written down before."),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def check() -> None:
    """Judge a cluster by what its clients were told: lost, duplicated, reordered, inconsistent or aborted records.

    It works with any Kafka cluster. A history is a file of lines that say what each client did and saw.
    """
