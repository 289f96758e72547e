"""`tidelog up`: several brokers as processes under a supervisor; `tidelog down`, which stops them."""

from collections.abc import Mapping
from pathlib import Path

import click

from tidelog.cli.options import CONSOLE_NEEDS, CommandFailed, Pair, check_extra, flag, usage_error
from tidelog.config.listeners import HIGHEST_PORT

MAX_BROKERS = 100
QUORUM = "quorum"


DATA = click.option(
    "--data",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Data folder of the cluster.",
)


@click.command()
@click.option("--brokers", type=click.IntRange(1, MAX_BROKERS), default=3, show_default=True, help="Number of brokers.")
@DATA
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
    help="Metadata store: sqlite:PATH, zookeeper://HOST:PORT/CHROOT or quorum (default: metadata.sqlite in --data).",
)
@click.option("--restart", is_flag=True, help="Restart a broker that exits unexpectedly.")
@click.option("--override", "overrides", type=Pair(), multiple=True, help="Option for every broker; repeatable.")
@flag("secure", "Use TLS, an administrator's password and ACLs, created in --data/security.")
@click.option(
    "--add-scram",
    "users",
    metavar="USER|@FILE",
    multiple=True,
    help="SCRAM user to add, as SCRAM-SHA-512=[name=NAME,password=PASSWORD], or a file of them; repeatable.",
)
@flag("console", "Also serve the web console, with changes allowed, on 127.0.0.1.")
@click.option(
    "--console-port",
    type=click.IntRange(0, HIGHEST_PORT),
    default=8080,
    show_default=True,
    help="Port of --console. 0: a free port.",
)
@flag("detach", "Return once the cluster is ready; `tidelog down` stops it.")
@flag("verbose", "Write the brokers' log lines to stderr, not to files in --data.")
def up(
    brokers: int,
    folder: Path,
    port: int,
    metadata: str | None,
    restart: bool,
    overrides: tuple[tuple[str, str], ...],
    secure: bool,
    users: tuple[str, ...],
    console: bool,
    console_port: int,
    detach: bool,
    verbose: bool,
) -> None:
    """Run a cluster of several brokers on this machine until Ctrl-C, SIGTERM or `tidelog down`.

    Prints a table of the brokers on stderr and then one line on stdout, `ready host:port,…`, once a controller is
    elected and every broker knows all others. Broker N keeps its data in the folder broker-N, its process ID in the
    file `pid` there, and its log in broker-N.log. New topics have a replica on up to three brokers.

    With --secure, clients need TLS and a password, and only the user `admin` may do anything until ACLs allow more. Two
    more lines name the file with the options for clients, which only you can read, and a command that uses it. A
    secured cluster must be started with --secure again.
    """
    if detach and verbose:
        raise usage_error("--detach and --verbose cannot be used together.")
    if port + brokers - 1 > HIGHEST_PORT:
        raise usage_error(
            f"--port {port}: {brokers} brokers need ports up to {port + brokers - 1}, above {HIGHEST_PORT}."
        )
    if console:
        check_extra(CONSOLE_NEEDS, "console", "The console")
    from tidelog.cli.brokers import running_cluster
    from tidelog.config.broker import BrokerConfig

    given = dict(overrides)
    has_quorum = metadata == QUORUM
    given.update(_store_override(metadata, given))
    BrokerConfig.validate(given)
    for name in BrokerConfig.unknown(given):
        click.echo(f"Unknown broker option {name}: it has no effect.", err=True)
    from tidelog.cli.security.given_users import given_users

    code = running_cluster.up(
        folder,
        brokers=brokers,
        port=port,
        overrides=given,
        restart=restart,
        secure=secure,
        users=given_users(users),
        verbose=verbose,
        detach=detach,
        console_port=console_port if console else None,
        quorum=has_quorum,
    )
    click.get_current_context().exit(code)


def _store_override(metadata: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """The broker option that names the metadata store of `--metadata`."""
    if metadata is None:
        return {}
    from tidelog.shell.store.store_address import ZookeeperAddress, parse_address

    for name in ("metadata.store", "zookeeper.connect"):
        if name in given:
            raise usage_error(f"--metadata and the option {name} both name a metadata store; remove one of them.")
    if metadata == QUORUM:
        return {}
    address = parse_address(metadata, "--metadata")
    if isinstance(address, ZookeeperAddress):
        return {"zookeeper.connect": f"{address.hosts}{address.chroot}"}
    return {"metadata.store": str(address)}


@click.command()
@DATA
def down(folder: Path) -> None:
    """Stop a cluster of `tidelog up`, and wait until it has stopped."""
    from tidelog.shell import control_socket

    try:
        control_socket.request(folder, control_socket.DOWN)
    except control_socket.ControlFailed as error:
        raise CommandFailed(str(error)) from None
    click.echo(f"The cluster in {folder} has stopped.")
