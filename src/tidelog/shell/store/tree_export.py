"""Whole parts of a metadata tree: read, deleted, exported and imported.

An export is lines of JSON: first a header, then one line per node, parents first. Ephemeral nodes belong to sessions
and are left out. Broker epochs are numbers of one store and have no meaning in another, so in-sync sets are exported
without them: after the import their members count only once all of them are back, and the most complete log leads (rule
8 of the replication rules). Log directories that were missing are left out for the same reason.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tidelog.controller import tree
from tidelog.model import NO_EPOCH
from tidelog.ports import Change, Children, Create, Delete, MetadataStore, Node, Operation, Read, Write

FORMAT = "tidelog metadata"
VERSION = 1
READS, CHANGES = 2000, 500
ZOOKEEPERS_OWN = "/zookeeper"

_STATE = re.compile(rf"{tree.TOPICS}/[^/]+/partitions/\d+/state")


class TreeError(Exception):
    """An operation on a tree failed; the message says why."""


class StoredNode(NamedTuple):
    path: str
    node: Node


def apply(store: MetadataStore, operations: Sequence[Operation]) -> Sequence[Any]:
    """Apply the operations and return the values; TreeError if the store does not answer or refuses."""
    result = store.apply(operations)
    if result.outcome == "conflict":
        raise TreeError(f"{operations[result.failed].path} was changed by another process; nothing was done.")
    if result.outcome != "ok":
        raise TreeError("The metadata store did not answer; the operation may or may not have taken effect.")
    return result.values


def walk(store: MetadataStore, path: str) -> Iterator[StoredNode]:
    """The node and all nodes below it, parents first, level by level; nothing if the node does not exist."""
    level = [path]
    while level:
        below: list[str] = []
        for start in range(0, len(level), READS):
            paths = level[start : start + READS]
            values = apply(store, [*(Read(each) for each in paths), *(Children(each) for each in paths)])
            for each, node, names in zip(paths, values[: len(paths)], values[len(paths) :], strict=True):
                if each != "/" and node is not None:
                    yield StoredNode(each, node)
                below += [f"{each.rstrip('/')}/{name}" for name in names or ()]
        level = [each for each in below if each != ZOOKEEPERS_OWN]


def delete_subtree(store: MetadataStore, path: str) -> int:
    """Delete the node and all nodes below it; return their number."""
    paths = [entry.path for entry in walk(store, path)]
    for start in range(0, len(paths), CHANGES):
        apply(store, [Delete(each) for each in paths[::-1][start : start + CHANGES]])
    return len(paths)


def brokers(store: MetadataStore) -> list[int]:
    """The brokers that are registered."""
    (names,) = apply(store, [Children(tree.BROKER_IDS)])
    return sorted(int(name) for name in names or ())


def check_stopped(store: MetadataStore) -> None:
    """TreeError while a broker is registered, because it would continue to write."""
    if registered := brokers(store):
        raise TreeError(f"Broker {registered[0]} is registered: stop the cluster first.")


def export_tree(store: MetadataStore) -> list[str]:
    """The whole tree as lines."""
    check_stopped(store)
    entries = [entry for entry in walk(store, "/") if not entry.node.session]
    if all(entry.path != tree.CLUSTER_ID for entry in entries):
        raise TreeError("This metadata store has no cluster.")
    head = {"format": FORMAT, "version": VERSION, "nodes": len(entries)}
    return [json.dumps(head), *(json.dumps(_line(entry)) for entry in entries)]


def _line(entry: StoredNode) -> dict[str, str]:
    data = _without_epochs(entry)
    try:
        return {"path": entry.path, "data": data.decode()}
    except UnicodeDecodeError:
        return {"path": entry.path, "base64": base64.b64encode(data).decode()}


def _without_epochs(entry: StoredNode) -> bytes:
    if entry.path.startswith(f"{tree.BROKER_DIRECTORIES}/"):
        with suppress(*tree.UNREADABLE):
            there = tree.parse_directories(entry.node.data).items()
            return tree.format_directories({id_: since for id_, since in there if since == NO_EPOCH})
    if not _STATE.fullmatch(entry.path):
        return entry.node.data
    state = tree.parse_state(entry.node.data)
    return tree.format_state(tree.without_epochs(state))


def import_tree(store: MetadataStore, lines: Iterable[str]) -> int:
    """Import the lines into a tree without a cluster; return the number of nodes.

    The cluster's id is written last: an import that was interrupted may be repeated, a tree with a cluster is refused.
    """
    nodes = _parsed(lines)
    check_stopped(store)
    (found,) = apply(store, [Read(tree.CLUSTER_ID)])
    if found is not None:
        raise TreeError(f"This metadata store already has a cluster: {tree.parse_cluster_id(found.data)}.")
    there = {entry.path for entry in walk(store, "/")}
    last = nodes.pop(tree.CLUSTER_ID)
    changes: list[Change] = [Write(path, data) if path in there else Create(path, data) for path, data in nodes.items()]
    for start in range(0, len(changes), CHANGES):
        apply(store, changes[start : start + CHANGES])
    apply(store, [Create(tree.CLUSTER_ID, last)])
    return len(nodes) + 1


def _parsed(lines: Iterable[str]) -> dict[str, bytes]:
    given = [line for line in lines if line.strip()]
    try:
        head = json.loads(given[0])
        known = head["format"] == FORMAT and head["version"] == VERSION
        nodes = {each["path"]: _content(each) for each in map(json.loads, given[1:])} if known else {}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise TreeError(f"This is not an export of `tidelog metadata export`: {error!r}.") from None
    if not known:
        raise TreeError(f"This is not an export of `tidelog metadata export` in version {VERSION}.")
    if len(nodes) != head["nodes"] or tree.CLUSTER_ID not in nodes:
        raise TreeError(f"The metadata is incomplete: {len(nodes)} of {head['nodes']} nodes.")
    return nodes


def _content(line: dict[str, str]) -> bytes:
    return base64.b64decode(line["base64"]) if "base64" in line else line["data"].encode()
