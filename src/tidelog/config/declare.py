"""Short words for declaring options: `retention_ms = long(604_800_000, "How long …", at_least=-1)`.

Each takes the default and the sentence; None as default makes the option's value optional.
"""

from typing import Any, overload

from tidelog.config import kinds
from tidelog.config.option import Dynamic, Option

CLUSTER_WIDE = Dynamic.CLUSTER_WIDE
PER_BROKER = Dynamic.PER_BROKER

MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1


def boolean(default: bool, doc: str, **rules: Any) -> Option[bool]:
    return Option(kinds.BOOLEAN, default, doc, **rules)


@overload
def integer(default: int, doc: str, **rules: Any) -> Option[int]: ...
@overload
def integer(default: None, doc: str, **rules: Any) -> Option[int | None]: ...
def integer(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(kinds.INT, default, doc, **rules)


@overload
def long(default: int, doc: str, **rules: Any) -> Option[int]: ...
@overload
def long(default: None, doc: str, **rules: Any) -> Option[int | None]: ...
def long(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(kinds.LONG, default, doc, **rules)


def short(default: int, doc: str, **rules: Any) -> Option[int]:
    return Option(kinds.SHORT, default, doc, **rules)


def double(default: float, doc: str, **rules: Any) -> Option[float]:
    return Option(kinds.DOUBLE, default, doc, **rules)


@overload
def string(default: str, doc: str, **rules: Any) -> Option[str]: ...
@overload
def string(default: None, doc: str, **rules: Any) -> Option[str | None]: ...
def string(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(kinds.STRING, default, doc, **rules)


@overload
def strings(default: list[str], doc: str, **rules: Any) -> Option[list[str]]: ...
@overload
def strings(default: None, doc: str, **rules: Any) -> Option[list[str] | None]: ...
def strings(default: Any, doc: str, **rules: Any) -> Option[Any]:
    return Option(kinds.LIST, default, doc, **rules)


def password(doc: str, **rules: Any) -> Option[str | None]:
    return Option(kinds.PASSWORD, None, doc, **rules)


def class_name(default: str | None, doc: str, **rules: Any) -> Option[str | None]:
    return Option(kinds.CLASS, default, doc, **rules)
