"""`tidelog console`: serves the web console of a cluster until Ctrl-C or SIGTERM."""

import os
import signal
import socket
import ssl
import threading
from typing import Any

import click

from tidelog.cli.options import (
    CONSOLE_NEEDS,
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    CommandFailed,
    check_extra,
    command_config_option,
    file_options,
    flag,
)
from tidelog.model import is_any_address

LOOPBACK = "127.0.0.1"
PORT = 8080


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
@click.option("--supervised", is_flag=True, hidden=True, help="End with stdin.")
def console(**given: Any) -> None:
    """Serve a web console for a Tidelog or Kafka cluster.

    Prints the console's address with a token, which is new at each start. Anyone with the token can see what the user
    of --command-config can see and, with --allow-changes, change it.
    """
    if given["key"] and not given["certificate"]:
        raise click.UsageError("--key requires --certificate.")
    _check_certificate(given["certificate"], given["key"])
    check_extra(CONSOLE_NEEDS, "console", "The console")
    from tidelog.console import server
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

    if given["supervised"]:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
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


def _check_certificate(certificate: str | None, key: str | None) -> None:
    """uvicorn would end with OpenSSL's words, or ask the terminal for the password of a key."""
    if certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password=lambda: "")
    except OSError as error:
        files = f"{certificate} and {key}" if key else certificate
        why = error.strerror or error
        expected = "expected PEM with a certificate and its private key, without a password"
        raise CommandFailed(f"Cannot serve HTTPS with {files}: {expected} ({why}).") from None


def _end_with_stdin() -> None:
    """End as soon as the process that holds the other end of stdin does."""
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else error
        raise CommandFailed(f"Cannot listen on {host}:{port}: {why}. Use --port for another port.") from None


def _place(listening: socket.socket, host: str) -> str:
    """Where a browser on this machine, or elsewhere by the name that was given, finds the console."""
    port = listening.getsockname()[1]
    shown = LOOPBACK if is_any_address(host) else host
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
