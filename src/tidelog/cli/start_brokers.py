"""`tidelog up`: several brokers on this machine, as processes under one supervisor."""

from collections.abc import Mapping
from pathlib import Path

import click

from tidelog.cli.options import Pair, usage_error

MAX_BROKERS = 100
HIGHEST_PORT = 65_535


@click.command()
@click.option("--brokers", type=click.IntRange(1, MAX_BROKERS), default=3, show_default=True, help="How many brokers.")
@click.option("--data", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="Their folder.")
@click.option(
    "--port",
    type=click.IntRange(0, HIGHEST_PORT),
    default=9092,
    show_default=True,
    help="The port of broker 0; the others follow. 0 takes free ones.",
)
@click.option(
    "--metadata",
    metavar="PLACE",
    help="The cluster's memory, sqlite:PATH or zookeeper://HOST:PORT/CHROOT; metadata.sqlite in --data without it.",
)
@click.option("--restart", is_flag=True, help="Start a broker again when it ends unasked.")
@click.option("--override", "overrides", type=Pair(), multiple=True, help="An option of every broker; may be repeated.")
def up(
    brokers: int,
    folder: Path,
    port: int,
    metadata: str | None,
    restart: bool,
    overrides: tuple[tuple[str, str], ...],
) -> None:
    """Run a cluster of several brokers on this machine until Ctrl-C or SIGTERM.

    Prints one line, `ready host:port,…`, once a controller leads and every broker knows all others. Broker N keeps its
    data, and its process id in the file `pid`, in the folder broker-N.
    """
    if port + brokers - 1 > HIGHEST_PORT:
        raise usage_error(f"--port {port} leaves no room for {brokers} brokers below {HIGHEST_PORT}.")
    from tidelog.config.broker import BrokerConfig
    from tidelog.shell import supervisor

    given = dict(overrides)
    given.update(_store_override(metadata, given))
    BrokerConfig.validate(given)
    for name in BrokerConfig.unknown(given):
        click.echo(f"The brokers do not know the option {name}: it has no effect.", err=True)
    code = supervisor.up(folder, brokers=brokers, port=port, overrides=given, restart=restart)
    click.get_current_context().exit(code)


def _store_override(metadata: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The brokers' option that says where the cluster's memory is."""
    if metadata is None:
        return {}
    from tidelog.shell.store.store_address import ZookeeperAddress, parse_address

    for name in ("metadata.store", "zookeeper.connect"):
        if name in given:
            raise usage_error(f"--metadata and the option {name} are two memories of one cluster: leave one out.")
    address = parse_address(metadata, "--metadata")
    if isinstance(address, ZookeeperAddress):
        return {"zookeeper.connect": f"{address.hosts}{address.chroot}"}
    return {"metadata.store": str(address)}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--override", "overrides", type=Pair(), multiple=True, help="An option over the file's; may be repeated.")
def broker(file: Path, overrides: tuple[tuple[str, str], ...]) -> None:
    """Run one broker from a server.properties FILE until Ctrl-C or SIGTERM."""
    from tidelog.shell.broker import load_config, run_broker

    config = load_config(file, [f"{name}={value}" for name, value in overrides])
    click.get_current_context().exit(run_broker(config))
