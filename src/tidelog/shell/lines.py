"""Log lines: one event, one line on stderr: moment, level, broker, kind, fields; as plain text or as a JSON object."""

import json
import sys
import time
from collections.abc import Mapping

from tidelog.effects import Event

SILENT = frozenset({"debug"})


class Lines:
    """The log of one broker process. `who` stands in every line."""

    def __init__(self, who: str, *, as_json: bool = False) -> None:
        self.who = who
        self._as_json = as_json

    def __repr__(self) -> str:
        return f"Lines({self.who})"

    def event(self, event: Event) -> None:
        self.write(event.level, event.kind, event.fields)

    def write(self, level: str, kind: str, fields: Mapping[str, object]) -> None:
        if level in SILENT:
            return
        now = time.time()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        if self._as_json:
            line = json.dumps({"time": moment, "level": level, "who": self.who, "kind": kind, **fields}, default=str)
        else:
            pairs = "".join(f" {name}={_plain(value)}" for name, value in fields.items())
            line = f"{moment} {level.upper()} {self.who} {kind}{pairs}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _plain(value: object) -> str:
    """A value without line breaks, in quotes where it has blanks."""
    text = str(value)
    return text if text.isascii() and text.isprintable() and " " not in text and text else repr(text)
