"""`tidelog broker`: one broker in this process, from Kafka's own format of configuration."""

from pathlib import Path

import click

from tidelog.cli.options import Pair


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--override", "overrides", type=Pair(), multiple=True, help="An option over the file's; may be repeated.")
def broker(file: Path, overrides: tuple[tuple[str, str], ...]) -> None:
    """Run one broker from a server.properties FILE until Ctrl-C or SIGTERM."""
    from tidelog.shell.broker import load_config, run_broker

    config = load_config(file, [f"{name}={value}" for name, value in overrides])
    click.get_current_context().exit(run_broker(config))
