"""Replacing a function of the core from outside, for as long as somebody wants it otherwise: mutants and coverage."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any
from unittest.mock import patch


def replaced(target: str, make: Callable[[Any], Any]) -> AbstractContextManager[Any]:
    """`target` is `module:name` or `module:Class.name`, where it is looked up; `make` is given what stands there."""
    module, _, path = target.partition(":")
    owner: Any = import_module(module)
    *owners, name = path.split(".")
    for part in owners:
        owner = getattr(owner, part)
    return patch.object(owner, name, make(getattr(owner, name)))
