"""What the scripts in Python share: they try features one after the other, and print what became of each as JSON."""

import json
import sys
from collections.abc import Callable

BOOTSTRAP, PREFIX = sys.argv[1:3]
"""The cluster; the topics PREFIX-FEATURE exist, with a partition each."""
WAIT_S = 60
VALUES = [b"value %d " % number * 20 for number in range(10)]
"""Ten alike: together they are smaller when compressed."""


def topic_of(feature: str) -> str:
    return f"{PREFIX}-{feature}"


def tried(version: str, features: dict[str, Callable[[], object]]) -> None:
    """Try each of these; one that raises has failed."""
    found = {}
    for name, attempt in features.items():
        try:
            attempt()
            found[name] = "ok"
        except Exception as error:
            found[name] = f"failed: {type(error).__name__}: {error}"
    print(json.dumps({"version": version, "features": found}))
