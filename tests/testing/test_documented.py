"""docs/testing.md: every fault that `Cluster` offers is there, and every test that it names exists."""

import ast
import re
from pathlib import Path

from tidelog.testing import Cluster

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = {"p": "test_producers_process.py", "c": "test_consumers_process.py"}


def test_every_named_test_exists_and_every_test_is_named():
    named = {
        (letter, test)
        for letters, test in re.findall(r"\b((?:p and )?[pc]) `(test_\w+)`", TEXT)
        for letter in letters.split(" and ")
    }
    found = {
        (letter, each.name)
        for letter, file in FILES.items()
        for each in ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8")).body
        if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")
    }
    assert named == found - {("c", "test_the_lag_of_a_group")}  # which is no fault


def test_every_method_is_described():
    methods = {name for name in dir(Cluster) if not name.startswith("_") and callable(getattr(Cluster, name))}
    described = set(re.findall(r"\b(\w+)\(", TEXT)) | set(re.findall(r"`(\w+)`", TEXT))
    internal = {"admin", "broker", "close", "wait_ready", "create_topic", "delete_topics", "forget_requests"}
    assert methods - described - internal == set()
