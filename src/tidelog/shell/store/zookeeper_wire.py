"""Requests of ZooKeeper's protocol that kazoo lacks: reads of many nodes at one point in time, persistent recursive
watches, and the stat of a node that a multi has just created.

Each request is what kazoo's connection sends: a `type`, `serialize`, and `deserialize` of the answer. They need
ZooKeeper 3.6 or newer.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from kazoo.protocol import serialization as kazoo
from kazoo.protocol.states import ZnodeStat
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from tidelog.controller.tree import BROKER_CONFIGS, DELEGATION_TOKEN, SASL_SALTS, USER_CONFIGS
from tidelog.ports import Change, Check, Children, Create, Delete, Read, Write

SECRET_PATHS = (USER_CONFIGS, BROKER_CONFIGS, SASL_SALTS, DELEGATION_TOKEN)
"""Below them are passwords of brokers and credentials of users."""

_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")

_END, _EPHEMERAL, _RECURSIVE = -1, 1, 1

GET_DATA, GET_CHILDREN, CREATE, SET_DATA, ANY_FAILURE = 4, 8, 15, 5, -1

ROLLED_BACK, NOT_TRIED = 0, -2
"""The codes of the other operations of a multi that failed: those before the failed one, and those behind it."""

NO_NODE = -101
CONFLICTS = frozenset({NO_NODE, -103, -108, -110, -111})
"""No such node, another version, a child of an ephemeral node, node exists, node has children."""


class Failed(NamedTuple):
    """An operation of a multi that failed, or that was not run because another one failed."""

    code: int


Answer = Any
"""A stat, a pair of content and stat, a list of names, a `Failed`, or None for an empty answer."""


class _List:
    """Several requests in one message; the answer has one entry for each."""

    type = 0

    def __init__(self, requests: Sequence[Any]) -> None:
        self._requests = requests

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._requests)})"

    def serialize(self) -> bytes:
        parts = [bytes(_HEADER.pack(each.type, 0, -1) + each.serialize()) for each in self._requests]
        return b"".join([*parts, _HEADER.pack(_END, 1, -1)])

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[Answer]:
        answers: list[Answer] = []
        while True:
            kind, done, _ = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            if done:
                return answers
            answer, offset = _answer(kind, data, offset)
            answers.append(answer)


class Multi(_List):
    """Changes, applied all or none."""

    type = 14

    def __init__(self, changes: Sequence[Change], root: str, *, restricts: bool = False) -> None:
        """`restricts`: only this client's user may change the nodes that are created."""
        super().__init__([_change(change, root, restricts=restricts) for change in changes])


class MultiRead(_List):
    """Reads of nodes and of children, answered from one point in time."""

    type = 22

    def __init__(self, queries: Sequence[Read | Children], root: str) -> None:
        super().__init__([_query(query, root) for query in queries])


class AddWatch:
    """Watch the path and everything below it, until the connection ends."""

    type = 106

    def __init__(self, path: str) -> None:
        self._path = path

    def __repr__(self) -> str:
        return f"AddWatch({self._path})"

    def serialize(self) -> bytes:
        return bytes(kazoo.write_string(self._path)) + _INT.pack(_RECURSIVE)

    @staticmethod
    def deserialize(_data: bytes, _offset: int) -> None:
        """The answer is empty."""


def sync(root: str) -> Any:
    """Makes the server catch up with the leader before it answers later requests."""
    return kazoo.Sync(root or "/")


def _change(change: Change, root: str, *, restricts: bool) -> Any:
    path = znode_path(root, change.path)
    match change:
        case Create(_, data, ephemeral):
            acl = _acl(change.path) if restricts else OPEN_ACL_UNSAFE
            return kazoo.Create2(path, bytes(data), acl, _EPHEMERAL if ephemeral else 0)
        case Write(_, data, version):
            return kazoo.SetData(path, bytes(data), version)
        case Delete(_, version):
            return kazoo.Delete(path, version)
        case Check(_, version):
            return kazoo.CheckVersion(path, version)


def _acl(path: str) -> list[Any]:
    """Kafka 3's: others may read what holds no secret."""
    is_secret = path.startswith(SECRET_PATHS)
    return list(CREATOR_ALL_ACL) if is_secret else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def _query(query: Read | Children, root: str) -> Any:
    path = znode_path(root, query.path)
    return kazoo.GetData(path, None) if isinstance(query, Read) else kazoo.GetChildren(path, None)


def znode_path(root: str, path: str) -> str:
    """The ZooKeeper path of a path of the tree; `root` is the chroot, without a trailing slash."""
    return root + path if path != "/" else root or "/"


def _answer(kind: int, data: bytes, offset: int) -> tuple[Answer, int]:
    if kind == ANY_FAILURE:
        return Failed(_INT.unpack_from(data, offset)[0]), offset + _INT.size
    if kind == GET_CHILDREN:
        return _names(data, offset)
    if kind == GET_DATA:
        content, offset = kazoo.read_buffer(data, offset)
        stat, offset = _stat(data, offset)
        return (content, stat), offset
    if kind == CREATE:
        _, offset = kazoo.read_string(data, offset)
    return _stat(data, offset) if kind in (CREATE, SET_DATA) else (None, offset)


def _stat(data: bytes, offset: int) -> tuple[ZnodeStat, int]:
    return ZnodeStat._make(kazoo.stat_struct.unpack_from(data, offset)), offset + kazoo.stat_struct.size


def _names(data: bytes, offset: int) -> tuple[list[str], int]:
    (count,) = _INT.unpack_from(data, offset)
    offset += _INT.size
    names = []
    for _ in range(max(0, count)):
        name, offset = kazoo.read_string(data, offset)
        names.append(name)
    return names, offset
