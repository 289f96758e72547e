"""A playback as one HTML file that needs no network: logs as rows of records, messages as arrows, a time slider."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from tidelog.lab.playback import Playback, to_json


def render(playbacks: Sequence[Playback]) -> str:
    """Return one telling, or several on the same steps side by side, as a whole HTML document."""
    if not playbacks:
        raise ValueError("a page needs at least one telling")
    # "</script>" inside a record's label must not end the element.
    data = json.dumps([to_json(telling) for telling in playbacks], separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": html.escape(playbacks[0].title),
        "STYLE": _file("page.css"),
        "SCRIPT": _file("page.js"),
        "DATA": data,
    }
    text = _file("page.html")
    for name, part in parts.items():
        before, after = text.split(f"{{{{{name}}}}}")
        text = before + part + after
    return text


def write(playbacks: Sequence[Playback], path: Path | str) -> None:
    """Write `render` to a file."""
    Path(path).write_text(render(playbacks), encoding="utf-8")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
