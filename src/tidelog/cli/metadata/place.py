"""Which store a command means, and a session with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tidelog.cli.options import Function, Refused, at_most_one, usage
from tidelog.ports import MetadataStore

SESSION_TIMEOUT_MS = 10_000


def place_options(function: Function) -> Function:
    """`--data`, `--metadata` and `--config`, of which one is needed."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--config", type=file, help="A broker's server.properties."),
        click.option("--metadata", metavar="PLACE", help="sqlite:PATH or zookeeper://HOST:PORT/CHROOT."),
        click.option("--data", type=folder, help="The folder of a cluster that `tidelog up` runs, or ran."),
    ):
        function = option(function)
    return function


@contextmanager
def opened(given: dict[str, Any], *, create: bool = False) -> Iterator[MetadataStore]:
    """A session with the store that the options name; what cannot be done with it is one sentence."""
    from tidelog.shell.store.addresses import StoreClosed, open_store
    from tidelog.shell.store.subtree import TreeRefused

    try:
        store = open_store(
            _place(given),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=SESSION_TIMEOUT_MS,
            create=create,
        )
    except StoreClosed as closed:
        raise Refused(str(closed)) from None
    try:
        yield store
    except TreeRefused as refused:
        raise Refused(str(refused)) from None
    finally:
        store.close()


def _place(given: dict[str, Any]) -> Any:
    from tidelog.cli.store_address import place_in
    from tidelog.shell.broker import load_config
    from tidelog.shell.store.addresses import address_of, parse_address

    chosen = at_most_one(given, ("data", "metadata", "config"))
    if chosen is None:
        raise usage("Say which store is meant by --data, --metadata or --config.")
    if chosen == "metadata":
        return parse_address(given["metadata"], "--metadata")
    if chosen == "config":
        return address_of(load_config(given["config"]))
    return place_in(given["data"])


def check_path(path: str) -> str:
    """A node's path as the tree has it."""
    if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
        raise usage(f"{path!r} is no path of a node: it begins with '/', does not end with it and has no empty part.")
    return path
