"""Two recordings of one script: answers as plain values, and where they differ.

What cannot be the same is taken out or given a common name: throttle times, hosts and ports, ids that a broker makes,
the words of error messages and documentation (whether there are any is compared).
"""

import re
from collections.abc import Iterator
from typing import Any

from tidelog.errors import ErrorCode
from tidelog.wire.message import fields

LEFT_OUT = frozenset({"throttle_time_ms", "host", "port", "log_dir", "total_bytes", "usable_bytes"})
ONLY_WHETHER_ANY = frozenset({"error_message", "batch_index_error_message", "documentation", "session_id"})
ONLY_WHETHER_KNOWN = frozenset({"producer_id", "log_append_time_ms"})
"""-1 or a number that only the broker that gave it understands."""

IDENTITY = ("resource_type", "resource_name", "name", "topic_name", "topic", "topic_id", "group_id", "api_key")
IDENTITY += ("partition_index", "partition", "index", "partition_id", "member_id", "key", "error_code")

Names = dict[Any, str]


def plain(answer: Any, names: Names) -> Any:
    """An answer without what may differ; `names` says what to call ids that a broker made."""
    if isinstance(answer, list):
        return sorted((plain(each, names) for each in answer), key=_identity) if _structs(answer) else answer
    if isinstance(answer, bytes | memoryview):
        return names.get(bytes(answer), bytes(answer))
    if isinstance(answer, str):
        return names.get(answer, answer)
    if not hasattr(answer, "__fields__"):
        return answer
    found = {field.name: getattr(answer, field.name) for field in fields(answer) if field.name not in LEFT_OUT}
    return {name: _field(name, value, names) for name, value in found.items()}


def _field(name: str, value: Any, names: Names) -> Any:
    if name == "error_code":
        return ErrorCode(value).name
    if name in ONLY_WHETHER_ANY:
        return "some" if value else "none"
    if name in ONLY_WHETHER_KNOWN:
        return "known" if value >= 0 else value
    return plain(value, names)


def _structs(values: list[Any]) -> bool:
    return bool(values) and hasattr(values[0], "__fields__")


def _identity(value: dict[str, Any]) -> str:
    return repr([value.get(name) for name in IDENTITY]) + repr(value)


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(path, ours, theirs) wherever two plain answers differ; structs of a list stand under their names."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in dict.fromkeys([*ours, *theirs]):
            yield from differences(ours.get(name), theirs.get(name), f"{path}.{name}" if path else name)
    elif _plain_structs(ours) and _plain_structs(theirs):
        left, right = _named(ours), _named(theirs)
        for name in dict.fromkeys([*left, *right]):
            yield from differences(left.get(name), right.get(name), f"{path}[{name}]")
    elif ours != theirs:
        yield path, ours, theirs


def _plain_structs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _named(structs: list[dict[str, Any]]) -> dict[str, Any]:
    """Structs by what identifies them; those of one name by their order, too."""
    found: dict[str, Any] = {}
    for each in structs:
        texts = [str(each[name]) for name in IDENTITY[:-1] if each.get(name) not in (None, "", bytes(16))]
        name, number = "/".join(texts[:2]), 1
        while f"{name}#{number}" in found:
            number += 1
        found[f"{name}#{number}"] = each
    return {re.sub(r"#1$", "", name): each for name, each in found.items()}
