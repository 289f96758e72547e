"""The page's text: the tellings as data, the style and the script, in one file without a network."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tidelog.lab.telling import Telling, to_json


def render(tellings: Sequence[Telling]) -> str:
    """One telling, or several on the same steps side by side, as a whole HTML document."""
    if not tellings:
        raise ValueError("a page needs at least one telling")
    # "</script>" inside a record's label must not end the element.
    data = json.dumps([to_json(telling) for telling in tellings], separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(tellings[0].title),
        "STYLE": _file("page.css"),
        "SCRIPT": _file("page.js"),
        "DATA": data,
    }
    text = _file("page.html")
    for name, part in parts.items():
        before, after = text.split(f"{{{{{name}}}}}")
        text = before + part + after
    return text


def write(tellings: Sequence[Telling], path: Path | str) -> None:
    """`render` into a file."""
    Path(path).write_text(render(tellings), encoding="utf-8")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
