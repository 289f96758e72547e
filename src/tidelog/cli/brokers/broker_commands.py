"""`tidelog broker`: one broker in this process, or a broker of a cluster that `tidelog up` runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tidelog.cli.brokers.start_brokers import DATA
from tidelog.cli.options import CommandFailed, Pair


class FileOrCommand(click.Group):
    """A group in which a file name stands for `run FILE`, as for Kafka's server-start script."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = ["run", *args]
        return super().parse_args(context, args)


@click.group(cls=FileOrCommand)
def broker() -> None:
    """Run one broker, or stop and start a broker of a cluster of `tidelog up`.

    `tidelog broker FILE` is short for `tidelog broker run FILE`.
    """


@broker.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--override", "overrides", type=Pair(), multiple=True, help="Option that overrides the file; repeatable.")
def run(file: Path, overrides: tuple[tuple[str, str], ...]) -> None:
    """Run one broker with a server.properties FILE until Ctrl-C or SIGTERM."""
    from tidelog.shell.broker import load_config, run_broker

    config = load_config(file, [f"{name}={value}" for name, value in overrides])
    click.get_current_context().exit(run_broker(config))


def _controlled(name: str, sentence: str, done: str) -> Callable[..., Any]:
    """A command that has the supervisor of a cluster do something with one of its brokers."""

    @broker.command(name, help=sentence, short_help=sentence)
    @click.argument("number", type=click.IntRange(min=0))
    @DATA
    def command(number: int, folder: Path) -> None:
        from tidelog.shell import control_socket

        try:
            control_socket.request(folder, f"{name} {number}")
        except control_socket.ControlFailed as error:
            raise CommandFailed(str(error)) from None
        click.echo(f"Broker {number} {done}.")

    return command


_controlled("stop", "Stop broker NUMBER cleanly; the cluster goes on without it.", "has stopped")
_controlled("start", "Start broker NUMBER again, and wait until the cluster knows it.", "has started")
_controlled("restart", "Stop broker NUMBER cleanly, then start it again.", "has restarted")
