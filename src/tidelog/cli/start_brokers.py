"""`tidelog up` and `tidelog broker`: several brokers as processes under a supervisor, or one broker in this process."""

from collections.abc import Mapping
from pathlib import Path

import click

from tidelog.cli.options import Pair, usage_error

MAX_BROKERS = 100
HIGHEST_PORT = 65_535


@click.command()
@click.option("--brokers", type=click.IntRange(1, MAX_BROKERS), default=3, show_default=True, help="Number of brokers.")
@click.option(
    "--data",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Data folder of the cluster.",
)
@click.option(
    "--port",
    type=click.IntRange(0, HIGHEST_PORT),
    default=9092,
    show_default=True,
    help="Port of broker 0; the others use the next ports. 0: free ports.",
)
@click.option(
    "--metadata",
    metavar="STORE",
    help="Metadata store: sqlite:PATH or zookeeper://HOST:PORT/CHROOT (default: metadata.sqlite in --data).",
)
@click.option("--restart", is_flag=True, help="Restart a broker that exits unexpectedly.")
@click.option("--override", "overrides", type=Pair(), multiple=True, help="Option for every broker; repeatable.")
def up(
    brokers: int,
    folder: Path,
    port: int,
    metadata: str | None,
    restart: bool,
    overrides: tuple[tuple[str, str], ...],
) -> None:
    """Run a cluster of several brokers on this machine until Ctrl-C or SIGTERM.

    Prints one line, `ready host:port,…`, once a controller is elected and every broker knows all others. Broker N keeps
    its data in the folder broker-N, and its process ID in the file `pid` there.
    """
    if port + brokers - 1 > HIGHEST_PORT:
        raise usage_error(
            f"--port {port}: {brokers} brokers need ports up to {port + brokers - 1}, above {HIGHEST_PORT}."
        )
    from tidelog.config.broker import BrokerConfig
    from tidelog.shell import supervisor

    given = dict(overrides)
    given.update(_store_override(metadata, given))
    BrokerConfig.validate(given)
    for name in BrokerConfig.unknown(given):
        click.echo(f"Unknown broker option {name}: it has no effect.", err=True)
    code = supervisor.up(folder, brokers=brokers, port=port, overrides=given, restart=restart)
    click.get_current_context().exit(code)


def _store_override(metadata: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The broker option that names the metadata store of `--metadata`."""
    if metadata is None:
        return {}
    from tidelog.shell.store.store_address import ZookeeperAddress, parse_address

    for name in ("metadata.store", "zookeeper.connect"):
        if name in given:
            raise usage_error(f"--metadata and the option {name} both name a metadata store; remove one of them.")
    address = parse_address(metadata, "--metadata")
    if isinstance(address, ZookeeperAddress):
        return {"zookeeper.connect": f"{address.hosts}{address.chroot}"}
    return {"metadata.store": str(address)}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--override", "overrides", type=Pair(), multiple=True, help="Option that overrides the file; repeatable.")
def broker(file: Path, overrides: tuple[tuple[str, str], ...]) -> None:
    """Run one broker with a server.properties FILE until Ctrl-C or SIGTERM."""
    from tidelog.shell.broker import load_config, run_broker

    config = load_config(file, [f"{name}={value}" for name, value in overrides])
    click.get_current_context().exit(run_broker(config))
