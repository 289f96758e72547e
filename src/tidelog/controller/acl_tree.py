"""The part of the metadata tree with the cluster's ACLs, as Kafka 3's AclAuthorizer kept them in ZooKeeper.

- A resource with ACLs has a node: `/kafka-acl/<type>/<name>` for a literal pattern,
  `/kafka-acl-extended/prefixed/<type>/<name>` for a prefix. Without ACLs it has none.
- A change is announced by a node below `/kafka-acl-changes` or `/kafka-acl-extended-changes`, numbered in order.
- The nodes are created with the first ACL: the tree of a cluster without an authorizer does not have them.

Kafka 3 rejected names that no node can have. Here such a name is percent-encoded behind `percent:`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from tidelog.security.acls import (
    ANYBODY,
    WILDCARD,
    Acl,
    AclOperation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

ROOTS = {PatternType.LITERAL: "/kafka-acl", PatternType.PREFIXED: "/kafka-acl-extended/prefixed"}
CHANGES = {PatternType.LITERAL: "/kafka-acl-changes", PatternType.PREFIXED: "/kafka-acl-extended-changes"}
TYPES = tuple(each for each in ResourceType if each > ResourceType.ANY)
OPERATIONS = {each.title: each for each in AclOperation if each > AclOperation.ANY}
PERMISSIONS = {each.title: each for each in Permission if each > Permission.ANY}
_OPERATION_TITLES = {operation: title for title, operation in OPERATIONS.items()}
_PERMISSION_TITLES = {permission: title for title, permission in PERMISSIONS.items()}
DENY_ALL = (Acl(ANYBODY, WILDCARD, AclOperation.ALL, Permission.DENY),)
"""For a resource whose node is malformed: nobody but super users may access it, because a DENY may be lost."""

_CHANGE = "acl_changes_"
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_ENCODED = "percent:"
_NOT_A_NAME = re.compile(rf"{_ENCODED}|.*[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]|\.{{1,2}}\Z", re.DOTALL)
"""What ZooKeeper rejects in the name of a node: in UTF-16 a character above U+FFFF is two surrogates."""


def skeleton() -> list[str]:
    """The nodes above those of resources, parents first."""
    paths = ["/kafka-acl-extended"]
    for pattern_type, root in ROOTS.items():
        paths += [root, *(f"{root}/{each.title}" for each in TYPES), CHANGES[pattern_type]]
    return paths


@cache
def type_path(pattern_type: PatternType, resource_type: ResourceType) -> str:
    return f"{ROOTS[pattern_type]}/{resource_type.title}"


def pattern_path(pattern: ResourcePattern) -> str:
    return f"{type_path(pattern.pattern_type, pattern.resource_type)}/{_node_name(pattern.name)}"


def pattern_of(pattern_type: PatternType, resource_type: ResourceType, node: str) -> ResourcePattern:
    """What the node with this name is about."""
    name = unquote(node.removeprefix(_ENCODED)) if node.startswith(_ENCODED) else node
    return ResourcePattern(resource_type, name, pattern_type)


def _node_name(name: str) -> str:
    return _ENCODED + quote(name, safe="").replace(".", "%2E") if _NOT_A_NAME.match(name) else name


def format_acls(acls: Iterable[Acl]) -> bytes:
    entries = [
        {
            "principal": acl.principal,
            "permissionType": _PERMISSION_TITLES[acl.permission],
            "operation": _OPERATION_TITLES[acl.operation],
            "host": acl.host,
        }
        for acl in acls
    ]
    return _dump({"version": 1, "acls": entries})


def parse_acls(data: bytes) -> tuple[Acl, ...]:
    """One of `tree.UNREADABLE` where the content is not of Kafka's form."""
    return tuple(
        Acl(
            str(entry["principal"]),
            str(entry["host"]),
            OPERATIONS[entry["operation"]],
            PERMISSIONS[entry["permissionType"]],
        )
        for entry in json.loads(data)["acls"]
    )


def change_path(pattern_type: PatternType, number: int) -> str:
    return f"{CHANGES[pattern_type]}/{_CHANGE}{number:010d}"


def change_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of the notifications, ascending; other names are ignored."""
    found = (name.removeprefix(_CHANGE) for name in names)
    return sorted(int(digits) for digits in found if digits.isascii() and digits.isdigit())


def format_change(pattern: ResourcePattern) -> bytes:
    resource_type, name = pattern.resource_type.name, pattern.name
    if pattern.pattern_type == PatternType.LITERAL:
        return f"{resource_type}:{name}".encode()
    fields = {"resourceType": resource_type, "name": name, "patternType": pattern.pattern_type.name}
    return _dump({"version": 1, **fields})


def parse_change(pattern_type: PatternType, data: bytes) -> ResourcePattern:
    """What changed. One of `tree.UNREADABLE` where the content is not of Kafka's form."""
    if pattern_type == PatternType.LITERAL:
        resource_type, colon, name = data.decode().partition(":")
        if not colon:
            raise ValueError(f"{data!r} is not TYPE:NAME")
    else:
        value = json.loads(data)
        resource_type, name = value["resourceType"], str(value["name"])
        pattern_type = PatternType[value["patternType"].upper()]
    return ResourcePattern(_TYPES_BY_WORD[resource_type.replace("_", "").upper()], name, pattern_type)


_TYPES_BY_WORD = {each.title.upper(): each for each in TYPES}
"""Kafka 1 wrote TransactionalId where Kafka 3 writes TRANSACTIONAL_ID."""


def _dump(value: Any) -> bytes:
    return _ENCODER.encode(value).encode()


def patterns_at(queried: Sequence[tuple[PatternType, ResourceType]], lists: Iterable[Any]) -> Iterator[ResourcePattern]:
    """The resources that were found below `type_path` of each."""
    return (
        pattern_of(pattern_type, resource_type, name)
        for (pattern_type, resource_type), names in zip(queried, lists, strict=True)
        for name in names or ()
    )


PLACES = tuple((pattern_type, resource_type) for pattern_type in ROOTS for resource_type in TYPES)
"""Everything that `type_path` has nodes below."""
