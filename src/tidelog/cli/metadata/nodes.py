"""`tidelog metadata ls|get|set|rm`."""

import sys
from typing import Any

import click

from tidelog.cli.metadata.place import check_path, opened, place_options
from tidelog.cli.options import Refused, flag
from tidelog.ports import ANY_VERSION, Children, Create, Delete, Node, Read, Write


@click.command()
@click.argument("path", default="/")
@click.option("-R", "recursive", is_flag=True, help="All below it, as paths.")
@place_options
def ls(path: str, recursive: bool, **given: Any) -> None:
    """List the names below the node PATH."""
    from tidelog.shell.store.subtree import ask, walk

    with opened(given) as store:
        (names,) = ask(store, [Children(check_path(path))])
        if names is None:
            raise Refused(f"There is no node {path}.")
        for name in (entry.path for entry in walk(store, path)) if recursive else names:
            click.echo(name)


@click.command()
@click.argument("path")
@flag("stat", "Also print its version, its creation number and the session that it lives with, on stderr.")
@place_options
def get(path: str, stat: bool, **given: Any) -> None:
    """Print what the node PATH holds."""
    from tidelog.shell.store.subtree import ask

    with opened(given) as store:
        (node,) = ask(store, [Read(check_path(path))])
    if not isinstance(node, Node):
        raise Refused(f"There is no node {path}.")
    sys.stdout.buffer.write(node.data + b"\n")
    sys.stdout.flush()
    if stat:
        click.echo(f"version={node.version} created={node.created} session={node.session:#x}", err=True)


@click.command("set")
@click.argument("path")
@click.argument("content")
@click.option("--version", type=int, default=ANY_VERSION, help="Only if the node has this version.")
@place_options
def set_(path: str, content: str, version: int, **given: Any) -> None:
    """Write CONTENT to the node PATH, which is made where there is none; `-` is standard input."""
    data = sys.stdin.buffer.read() if content == "-" else content.encode()
    with opened(given) as store:
        result = store.apply([Write(check_path(path), data, version)])
        if result.outcome == "conflict" and version == ANY_VERSION:
            result = store.apply([Create(path, data)])
    if result.outcome == "conflict":
        missing = "does not have this version" if version != ANY_VERSION else "has no parent"
        raise Refused(f"Node {path} {missing}; nothing was done.")
    if result.outcome != "ok":
        raise Refused("The metadata store did not answer, so the node may or may not have been written.")


@click.command()
@click.argument("path")
@click.option("-r", "recursive", is_flag=True, help="With all below it.")
@place_options
def rm(path: str, recursive: bool, **given: Any) -> None:
    """Delete the node PATH."""
    from tidelog.shell.store.subtree import ask, remove

    if check_path(path) == "/":
        raise Refused("The root cannot be deleted.")
    with opened(given) as store:
        node, names = ask(store, [Read(path), Children(path)])
        if node is None:
            raise Refused(f"There is no node {path}.")
        if recursive:
            remove(store, path)
        elif names:
            raise Refused(f"Node {path} has nodes below it; -r deletes them, too.")
        else:
            ask(store, [Delete(path)])
