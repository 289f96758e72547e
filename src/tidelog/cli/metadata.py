"""`tidelog metadata`: inspects and edits the metadata tree, like zkCli on any store, and moves it between stores.

The tree of a metadata quorum is read while the cluster is stopped, and written only as a whole, into a new quorum.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tidelog.shell.quorum.stopped_quorum import StoppedNode
    from tidelog.shell.store.store_address import StoreAddress

SESSION_TIMEOUT_MS = 10_000
QUORUM = "quorum:"


@click.group()
def metadata() -> None:
    """Inspect, edit, export and import cluster metadata, in SQLite, ZooKeeper or the log of a stopped quorum.

    The tree is that of Kafka with ZooKeeper: /controller, /brokers/ids, /brokers/topics, /config, /admin. Select the
    store with --data (the folder of `tidelog up`), --metadata (sqlite:PATH, zookeeper://HOST:PORT/CHROOT, or
    quorum:FOLDER with the folder of `tidelog up`) or --config (a broker's server.properties).
    """


def store_options(function: Function) -> Function:
    """Add `--data`, `--metadata` and `--config`; exactly one of them is required."""
    folder = click.Path(exists=True, file_okay=False, path_type=Path)
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--config", type=file, help="A broker's server.properties."),
        zk_tls_option(),
        click.option("--metadata", metavar="STORE", help="sqlite:PATH, zookeeper://HOST:PORT/CHROOT or quorum:FOLDER."),
        click.option("--data", type=folder, help="Folder of a cluster started by `tidelog up`."),
    ):
        function = option(function)
    return function


@contextmanager
def open_session(given: dict[str, Any], *, create: bool = False) -> Iterator[MetadataStore]:
    """Open a session with the selected store; errors of the store become CommandFailed."""
    from tidelog.shell.store.store_address import StoreUnavailable, open_store
    from tidelog.shell.store.tree_export import TreeError

    place = _place(given)
    if isinstance(place, list):
        with _open_quorum(place, create=create) as found:
            yield found
        return
    try:
        store = open_store(
            place,
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


@contextmanager
def _open_quorum(nodes: "list[StoppedNode]", *, create: bool) -> Iterator[MetadataStore]:
    """The tree of a stopped quorum, which may only be read, or an empty one, which becomes a new quorum at the end."""
    from tidelog.controller.tree import SKELETON
    from tidelog.quorum.tree import Tree
    from tidelog.shell.quorum.stopped_quorum import TreeStore, locked, read, write_new
    from tidelog.shell.secure_folder import only_owner
    from tidelog.shell.store.tree_export import TreeError

    try:
        with locked(nodes):
            store = TreeStore(Tree(SKELETON) if create else read(nodes))
            yield store
            if create:
                with only_owner():
                    write_new(nodes, store.tree)
    except TreeError as refused:
        raise CommandFailed(str(refused)) from None


def _place(given: dict[str, Any]) -> "StoreAddress | list[StoppedNode]":
    """The store's address, or the nodes of a quorum."""
    from tidelog.cli.store_address import store_address_in
    from tidelog.config.broker import BrokerConfig
    from tidelog.config.quorum import quorum_of
    from tidelog.shell.broker import load_config
    from tidelog.shell.quorum import stopped_quorum
    from tidelog.shell.quorum.quorum_folders import is_formatted
    from tidelog.shell.store.store_address import address_of, parse_address, secured
    from tidelog.shell.store.tree_export import TreeError

    chosen = at_most_one(given, ("data", "metadata", "config"))
    if chosen is None:
        raise usage_error("One of --data, --metadata and --config is required, to select the store.")
    if chosen == "metadata" and given["metadata"].startswith(QUORUM):
        try:
            return stopped_quorum.nodes_in(Path(given["metadata"].removeprefix(QUORUM)))
        except TreeError as refused:
            raise CommandFailed(str(refused)) from None
    if chosen == "metadata":
        return secured(parse_address(given["metadata"], "--metadata"), BrokerConfig(file_options(given[ZK_TLS])))
    if chosen == "config":
        config = load_config(given["config"])
        if not config.has_quorum:
            return address_of(config)
        node = stopped_quorum.node_of(quorum_of(config), config.folders)
        copies = [str(each.absolute()) for each in given.get("replica", ())]
        return [node, *(stopped_quorum.StoppedNode(each, [each], static=node.static) for each in copies)]
    if is_formatted(given["data"]):
        return stopped_quorum.nodes_in(given["data"])
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
        _check_writable(store)
        result = store.apply([Write(check_path(path), data, version)])
        if result.outcome == "conflict" and version == ANY_VERSION:
            result = store.apply([Create(path, data)])
    if result.outcome == "conflict":
        problem = "does not have this version" if version != ANY_VERSION else "has no parent"
        raise CommandFailed(f"Node {path} {problem}; nothing was changed.")
    if result.outcome != "ok":
        raise CommandFailed("The metadata store did not answer; the node may or may not have been written.")


def _check_writable(store: MetadataStore) -> None:
    from tidelog.shell.quorum.stopped_quorum import TreeStore

    if isinstance(store, TreeStore):
        raise CommandFailed("The log of a metadata quorum cannot be edited; export it, and import it into a new one.")


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
        _check_writable(store)
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
@click.option(
    "--replica",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="With --config: copy of the log directory of another controller; repeatable.",
)
@store_options
def export(file: Path, **given: Any) -> None:
    """Export the metadata of a stopped cluster to FILE, as JSON lines.

    Broker epochs are not exported, because each store numbers them itself. Therefore after an import a partition stays
    offline until all brokers of its ISR are back. For a quorum, a majority of the
    controllers is read.
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
    """Import FILE, written by `export`, into an unused store.

    With --config of a controller, or --metadata quorum:FOLDER, it creates a new metadata quorum.
    """
    from tidelog.shell.store.tree_export import import_tree

    lines = file.read_text(encoding="utf-8").splitlines()
    with open_session(given, create=True) as store:
        count = import_tree(store, lines)
    click.echo(f"{count} nodes read from {file}.")
