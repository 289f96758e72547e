"""The flags of `tidelog status`."""

import re
import sys
from typing import Any

import click

from tidelog.cli.options import cluster_options, flag, usage

TIMEOUT_MS = 5_000


@click.command()
@cluster_options
@click.option(
    "--topic", help="Topics whose whole name this regular expression matches; all but internal ones by default."
)
@flag("watch", "Go on: redraw on a terminal, print what changed in a pipe.")
@click.option(
    "--interval-ms", type=click.IntRange(10), default=500, show_default=True, help="How often --watch looks again."
)
def status(**given: Any) -> None:
    """Show leader, epoch and ISR of each partition, and of each replica its log end offset, high watermark and lag."""
    if given["topic"] is not None:
        try:
            re.compile(given["topic"])
        except re.error as error:
            raise usage(f"--topic {given['topic']!r} is no regular expression: {error}.") from None
    from tidelog.cli.cluster import connect
    from tidelog.cli.status import view
    from tidelog.cli.status.snapshot import ReplicaState, replicas
    from tidelog.errors import ApiError

    with connect(given["bootstrap_server"], given["command_config"], timeout_ms=TIMEOUT_MS) as admin:

        def look() -> list[ReplicaState] | None:
            try:
                return replicas(admin, given["topic"])
            except ApiError:
                return None

        if not given["watch"]:
            view.print_once(replicas(admin, given["topic"]))
        elif sys.stdout.isatty():
            view.draw(look, given["interval_ms"] / 1000)
        else:
            view.follow(look, given["interval_ms"] / 1000)
