"""`tidelog console`: serves the web console of a cluster until Ctrl-C or SIGTERM."""

import socket
from typing import Any

import click

from tidelog.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, CommandFailed, command_config_option, file_options, flag

LOOPBACK = "127.0.0.1"
PORT = 8080
MISSING = "The console needs starlette and uvicorn: pip install 'tidelog[console]'."


@click.command()
@click.option(
    "--bootstrap",
    "--bootstrap-server",
    "bootstrap",
    type=Bootstrap(),
    default=DEFAULT_BOOTSTRAP,
    show_default=True,
    help="Brokers to connect to, as host:port,host:port.",
)
@command_config_option
@click.option("--port", type=click.IntRange(0, 65_535), default=PORT, show_default=True, help="Port. 0: a free port.")
@click.option("--host", default=LOOPBACK, show_default=True, help="Address to listen on.")
@click.option("--host-name", "host_names", multiple=True, help="Name by which browsers reach the console; repeatable.")
@flag("allow-changes", "Allow changes: create, alter, delete, produce, reset (default: read-only).")
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="PEM file: serve HTTPS with it.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False), help="PEM file with the certificate's key.")
def console(**given: Any) -> None:
    """Serve a web console for a Tidelog or Kafka cluster.

    Prints the console's address with a token, which is new at each start. Whoever has it may see all that the client
    options of --command-config may see, and with --allow-changes also change it.
    """
    if given["key"] and not given["certificate"]:
        raise click.UsageError("--key requires --certificate.")
    try:
        from tidelog.console import server
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn", "anyio", "h11"):
            raise
        raise CommandFailed(MISSING) from None
    from tidelog.console.console import Console
    from tidelog.console.safety import Rules, new_token

    listening = _listen(given["host"], given["port"])
    names = {"localhost", given["host"].lower(), *(name.lower() for name in given["host_names"])}
    rules = Rules(new_token(), frozenset(names), given["allow_changes"])
    options = file_options(given["command_config"])

    def started() -> None:
        scheme = "https" if given["certificate"] else "http"
        if given["host"] not in (LOOPBACK, "localhost", "::1") and scheme == "http":
            click.echo("Without --certificate, everyone on the network can read the token.", err=True)
        click.echo(f"console {scheme}://{_place(listening, given['host'])}/#token={rules.token}")

    server.run(
        Console(
            given["bootstrap"],
            options,
            allow_changes=given["allow_changes"],
            command_config=given["command_config"],
        ),
        rules,
        listening,
        started,
        certificate=given["certificate"],
        key=given["key"],
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise CommandFailed(
            f"Cannot listen on {host}:{port}: {error.strerror or error}. Use --port for another port."
        ) from None


def _place(listening: socket.socket, host: str) -> str:
    """Where a browser on this machine, or elsewhere by the name that was given, finds the console."""
    port = listening.getsockname()[1]
    shown = LOOPBACK if host in ("0.0.0.0", "::", "") else host  # noqa: S104 (compared, not bound)
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
