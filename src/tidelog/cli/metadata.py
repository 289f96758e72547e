"""The table of `tidelog metadata`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from tidelog.cli.options import CommandFailed, Function, at_most_one, flag, usage_error
from tidelog.ports import ANY_VERSION, Children, Create, Delete, MetadataStore, Node, Read, Write

SESSION_TIMEOUT_MS = 10_000


@click.group()
def metadata() -> None:
    """Look at, change and move the cluster's memory: what zkCli does, on either store.

    The tree is Kafka's of its ZooKeeper times: /controller, /brokers/ids, /brokers/topics, /config, /admin. Say where
    it is by --data, the folder of `tidelog up`, by --metadata, sqlite:PATH or zookeeper://HOST:PORT/CHROOT, or by
    --config, a broker's server.properties.
    """


def store_options(function: Function) -> Function:
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
def open_session(given: dict[str, Any], *, create: bool = False) -> Iterator[MetadataStore]:
    """A session with the store that the options name; what cannot be done with it is one sentence."""
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
    from tidelog.shell.broker import load_config
    from tidelog.shell.store.store_address import address_of, parse_address

    chosen = at_most_one(given, ("data", "metadata", "config"))
    if chosen is None:
        raise usage_error("Say which store is meant by --data, --metadata or --config.")
    if chosen == "metadata":
        return parse_address(given["metadata"], "--metadata")
    if chosen == "config":
        return address_of(load_config(given["config"]))
    return store_address_in(given["data"])


def check_path(path: str) -> str:
    """A node's path as the tree has it."""
    if not path.startswith("/") or "//" in path or (path != "/" and path.endswith("/")):
        raise usage_error(
            f"{path!r} is no path of a node: it begins with '/', does not end with it and has no empty part."
        )
    return path


@metadata.command()
@click.argument("path", default="/")
@click.option("-R", "recursive", is_flag=True, help="All below it, as paths.")
@store_options
def ls(path: str, recursive: bool, **given: Any) -> None:
    """List the names below the node PATH."""
    from tidelog.shell.store.tree_export import apply, walk

    with open_session(given) as store:
        (names,) = apply(store, [Children(check_path(path))])
        if names is None:
            raise CommandFailed(f"There is no node {path}.")
        for name in (entry.path for entry in walk(store, path)) if recursive else names:
            click.echo(name)


@metadata.command()
@click.argument("path")
@flag("stat", "Also print its version, its creation number and the session that it lives with, on stderr.")
@store_options
def get(path: str, stat: bool, **given: Any) -> None:
    """Print what the node PATH holds."""
    from tidelog.shell.store.tree_export import apply

    with open_session(given) as store:
        (node,) = apply(store, [Read(check_path(path))])
    if not isinstance(node, Node):
        raise CommandFailed(f"There is no node {path}.")
    sys.stdout.buffer.write(node.data + b"\n")
    sys.stdout.flush()
    if stat:
        click.echo(f"version={node.version} created={node.created} session={node.session:#x}", err=True)


@metadata.command("set")
@click.argument("path")
@click.argument("content")
@click.option("--version", type=int, default=ANY_VERSION, help="Only if the node has this version.")
@store_options
def set_(path: str, content: str, version: int, **given: Any) -> None:
    """Write CONTENT to the node PATH, which is made where there is none; `-` is standard input."""
    data = sys.stdin.buffer.read() if content == "-" else content.encode()
    with open_session(given) as store:
        result = store.apply([Write(check_path(path), data, version)])
        if result.outcome == "conflict" and version == ANY_VERSION:
            result = store.apply([Create(path, data)])
    if result.outcome == "conflict":
        missing = "does not have this version" if version != ANY_VERSION else "has no parent"
        raise CommandFailed(f"Node {path} {missing}; nothing was done.")
    if result.outcome != "ok":
        raise CommandFailed("The metadata store did not answer, so the node may or may not have been written.")


@metadata.command()
@click.argument("path")
@click.option("-r", "recursive", is_flag=True, help="With all below it.")
@store_options
def rm(path: str, recursive: bool, **given: Any) -> None:
    """Delete the node PATH."""
    from tidelog.shell.store.tree_export import apply, delete_subtree

    if check_path(path) == "/":
        raise CommandFailed("The root cannot be deleted.")
    with open_session(given) as store:
        node, names = apply(store, [Read(path), Children(path)])
        if node is None:
            raise CommandFailed(f"There is no node {path}.")
        if recursive:
            delete_subtree(store, path)
        elif names:
            raise CommandFailed(f"Node {path} has nodes below it; -r deletes them, too.")
        else:
            apply(store, [Delete(path)])


@metadata.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_options
def export(file: Path, **given: Any) -> None:
    """Write the memory of a stopped cluster to FILE, as lines of JSON.

    Broker epochs are left out, because another store has numbers of its own. So after an import each partition waits
    until all brokers of its in-sync set are back.
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
    """Fill a store that no cluster uses yet with what `export` wrote to FILE."""
    from tidelog.shell.store.tree_export import import_tree

    lines = file.read_text(encoding="utf-8").splitlines()
    with open_session(given, create=True) as store:
        count = import_tree(store, lines)
    click.echo(f"{count} nodes read from {file}.")
