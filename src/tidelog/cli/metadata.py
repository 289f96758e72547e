"""`tidelog metadata`: inspects and edits the metadata tree, and moves it between stores, like zkCli on either store."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tidelog.cli.options import (
    ZK_TLS,
    CommandFailed,
    Function,
    at_most_one,
    file_options,
    flag,
    usage_error,
    zk_tls_option,
)
from tidelog.ports import ANY_VERSION, Children, Create, Delete, MetadataStore, Node, Read, Write

SESSION_TIMEOUT_MS = 10_000


@click.group()
def metadata() -> None:
    """Inspect, edit, export and import cluster metadata, in SQLite or ZooKeeper.

    The tree is that of Kafka with ZooKeeper: /controller, /brokers/ids, /brokers/topics, /config, /admin. Select the
    store with --data (the folder of `tidelog up`), --metadata (sqlite:PATH or zookeeper://HOST:PORT/CHROOT) or --config
    (a broker's server.properties).
    """


def store_options(function: Function) -> Function:
    """Add `--data`, `--metadata` and `--config`; exactly one of them is required."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--config", type=file, help="A broker's server.properties."),
        zk_tls_option(),
        click.option("--metadata", metavar="STORE", help="sqlite:PATH or zookeeper://HOST:PORT/CHROOT."),
        click.option("--data", type=folder, help="Folder of a cluster started by `tidelog up`."),
    ):
        function = option(function)
    return function


@contextmanager
def open_session(given: dict[str, Any], *, create: bool = False) -> Iterator[MetadataStore]:
    """Open a session with the selected store; errors of the store become CommandFailed."""
    from tidelog.shell.store.store_address import StoreUnavailable, open_store
    from tidelog.shell.store.tree_export import TreeError

    try:
        store = open_store(
            _store_address(given),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=SESSION_TIMEOUT_MS,
            create=create,
        )
    except StoreUnavailable as closed:
        raise CommandFailed(str(closed)) from None
    try:
        yield store
    except TreeError as refused:
        raise CommandFailed(str(refused)) from None
    finally:
        store.close()


def _store_address(given: dict[str, Any]) -> Any:
    from tidelog.cli.store_address import store_address_in
    from tidelog.config.broker import BrokerConfig
    from tidelog.shell.broker import load_config
    from tidelog.shell.store.store_address import address_of, parse_address, secured

    chosen = at_most_one(given, ("data", "metadata", "config"))
    if chosen is None:
        raise usage_error("One of --data, --metadata and --config is required, to select the store.")
    if chosen == "metadata":
        return secured(parse_address(given["metadata"], "--metadata"), BrokerConfig(file_options(given[ZK_TLS])))
    if chosen == "config":
        return address_of(load_config(given["config"]))
    return store_address_in(given["data"])


def check_path(path: str) -> str:
    """The path, if it is valid; else UsageError."""
    if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
        raise usage_error(f"{path!r} is not a valid path; expected /NAME/NAME, without a trailing slash.")
    return path


@metadata.command()
@click.argument("path", default="/")
@click.option("-R", "recursive", is_flag=True, help="List all nodes below PATH, as paths.")
@store_options
def ls(path: str, recursive: bool, **given: Any) -> None:
    """List the names below the node PATH."""
    from tidelog.shell.store.tree_export import apply, walk

    with open_session(given) as store:
        (names,) = apply(store, [Children(check_path(path))])
        if names is None:
            raise CommandFailed(f"Node {path} does not exist.")
        for name in (entry.path for entry in walk(store, path)) if recursive else names:
            click.echo(name)


@metadata.command()
@click.argument("path")
@flag("stat", "Also print version, creation number and session, on stderr.")
@store_options
def get(path: str, stat: bool, **given: Any) -> None:
    """Print the data of the node PATH."""
    from tidelog.shell.store.tree_export import apply

    with open_session(given) as store:
        (node,) = apply(store, [Read(check_path(path))])
    if not isinstance(node, Node):
        raise CommandFailed(f"Node {path} does not exist.")
    sys.stdout.buffer.write(node.data + b"\n")
    sys.stdout.flush()
    if stat:
        click.echo(f"version={node.version} created={node.created} session={node.session:#x}", err=True)


@metadata.command("set")
@click.argument("path")
@click.argument("content")
@click.option("--version", type=int, default=ANY_VERSION, help="Version that the node must have (default: any).")
@store_options
def set_(path: str, content: str, version: int, **given: Any) -> None:
    """Write CONTENT to the node PATH, or create it; - reads stdin."""
    data = sys.stdin.buffer.read() if content == "-" else content.encode()
    with open_session(given) as store:
        result = store.apply([Write(check_path(path), data, version)])
        if result.outcome == "conflict" and version == ANY_VERSION:
            result = store.apply([Create(path, data)])
    if result.outcome == "conflict":
        problem = "does not have this version" if version != ANY_VERSION else "has no parent"
        raise CommandFailed(f"Node {path} {problem}; nothing was changed.")
    if result.outcome != "ok":
        raise CommandFailed("The metadata store did not answer; the node may or may not have been written.")


@metadata.command()
@click.argument("path")
@click.option("-r", "recursive", is_flag=True, help="Also delete all nodes below PATH.")
@store_options
def rm(path: str, recursive: bool, **given: Any) -> None:
    """Delete the node PATH."""
    from tidelog.shell.store.tree_export import apply, delete_subtree

    if check_path(path) == "/":
        raise CommandFailed("The root node cannot be deleted.")
    with open_session(given) as store:
        node, names = apply(store, [Read(path), Children(path)])
        if node is None:
            raise CommandFailed(f"Node {path} does not exist.")
        if recursive:
            delete_subtree(store, path)
        elif names:
            raise CommandFailed(f"Node {path} has child nodes; use -r to delete them too.")
        else:
            apply(store, [Delete(path)])


@metadata.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_options
def export(file: Path, **given: Any) -> None:
    """Export the metadata of a stopped cluster to FILE, as JSON lines.

    Broker epochs are not exported, because each store numbers them itself. Therefore after an import a partition stays
    offline until all brokers of its ISR are back.
    """
    from tidelog.shell.store.tree_export import export_tree

    with open_session(given) as store:
        lines = export_tree(store)
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    click.echo(f"{len(lines) - 1} nodes written to {file}.")


@metadata.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_options
def import_(file: Path, **given: Any) -> None:
    """Import FILE, written by `export`, into an unused store."""
    from tidelog.shell.store.tree_export import import_tree

    lines = file.read_text(encoding="utf-8").splitlines()
    with open_session(given, create=True) as store:
        count = import_tree(store, lines)
    click.echo(f"{count} nodes read from {file}.")
