"""Log lines: each event is one line on stderr with time, level, broker, kind and fields, as plain text or as JSON."""

import json
import sys
import time
from collections.abc import Mapping

from tidelog.config.loggers import LEVELS, ROOT
from tidelog.effects import Event

LEVEL_RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
"""Event levels, on the scale of `config.loggers.LEVELS`."""


class EventLogger:
    """The log of one broker process. `who` is part of every line."""

    def __init__(self, who: str, *, as_json: bool = False) -> None:
        self.who = who
        self._as_json = as_json
        self._levels: dict[str, int] = {}
        self._default_level = LEVEL_RANKS["info"]

    def __repr__(self) -> str:
        return f"EventLogger({self.who})"

    def set_levels(self, levels: Mapping[str, str]) -> None:
        """Set the level of each logger. An event is written if its level is at least that of its kind's family, or of
        root."""
        self._levels = {logger: LEVELS[level] for logger, level in levels.items()}
        self._default_level = self._levels.get(ROOT, LEVEL_RANKS["info"])

    def event(self, event: Event) -> None:
        self.write(event.level, event.kind, event.fields)

    def write(self, level: str, kind: str, fields: Mapping[str, object]) -> None:
        if LEVEL_RANKS[level] < self._levels.get(kind.partition(".")[0], self._default_level):
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
    """A value without line breaks, quoted if it contains blanks."""
    text = str(value)
    return text if text.isascii() and text.isprintable() and " " not in text and text else repr(text)
