"""Valid topic names."""

import re

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
MAX_LENGTH = 249


def fault(name: str) -> str | None:
    """Why the name is invalid, or None."""
    if not name:
        return "Topic name is invalid: it is empty."
    if name in (".", ".."):
        return f"Topic name is invalid: {name!r} is not allowed."
    if len(name) > MAX_LENGTH:
        return f"Topic name is invalid: it has {len(name)} characters, more than {MAX_LENGTH}."
    if not _LEGAL.fullmatch(name):
        return f"Topic name is invalid: {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'."
    return None


def unified(name: str) -> str:
    """The name as metric names spell it, where '.' and '_' are one: two topics must not share it."""
    return name.replace(".", "_")
