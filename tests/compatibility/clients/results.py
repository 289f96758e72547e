"""The results that are kept of what clients can do: a file for each. Only tests write them (`--rewrite-clients`)."""

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
WORKS = "ok"


def failed(found: dict[str, Any]) -> dict[str, str]:
    """The features that do not work, and why."""
    return {feature: outcome for feature, outcome in found["features"].items() if outcome != WORKS}


def file_name(client: str) -> str:
    """The name of a client as a part of names of files and topics."""
    return re.sub("[^a-z0-9]+", "-", client.lower()).strip("-")


def keep(name: str, found: dict[str, Any], *, test: str, rewrite: bool) -> None:
    """Fail if these are not the kept results of this client; with `rewrite`, write them instead."""
    file = FOLDER / f"{file_name(name)}.json"
    content = {"client": name, "version": found["version"], "test": test, "features": found["features"]}
    if rewrite:
        file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    assert content == kept, f"run this test with --rewrite-clients, look at {file.name}, and run scripts/reference.py"
