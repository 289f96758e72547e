"""Log lines: each event is one line on stderr with time, level, broker, kind and fields, as plain text or as JSON."""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from tidelog.config.loggers import LEVELS, ROOT
from tidelog.effects import Event
from tidelog.node.event_log import LineLimit

LEVEL_RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
"""Event levels, on the scale of `config.loggers.LEVELS`."""


CAUSED_BY_PEERS = "connection"
"""The family of kinds that anyone who can connect causes, as often as they like: `LineLimit` counts each kind."""
MAX_VALUE_LENGTH = 1_000
"""Characters of one field; a peer chooses what some of them say."""


class EventLogger:
    """The log of one broker process. `who` is part of every line."""

    def __init__(self, who: str, *, as_json: bool = False) -> None:
        self.who = who
        self._as_json = as_json
        self._levels: dict[str, int] = {}
        self._default_level = LEVEL_RANKS["info"]
        self._limits: dict[str, LineLimit] = {}
        self.counts: Counter[str] = Counter()
        """Events by kind, those that were not written included."""

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
        self.counts[kind] += 1
        self.print(level, kind, fields)

    def print(self, level: str, kind: str, fields: Mapping[str, object]) -> None:
        """Write the line, unless its level or the number of such lines forbids it."""
        family = kind.partition(".")[0]
        if LEVEL_RANKS[level] < self._levels.get(family, self._default_level):
            return
        if family == CAUSED_BY_PEERS:
            limit = self._limits.setdefault(kind, LineLimit())
            if not limit.allows(kind, int(time.monotonic() * 1000)):
                return
            fields = {**fields, **limit.note_omitted()}
        now = time.time()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
        if self._as_json:
            shown = {name: _shortened(value) if isinstance(value, str) else value for name, value in fields.items()}
            line = json.dumps({"time": moment, "level": level, "who": self.who, "kind": kind, **shown}, default=str)
        else:
            line = f"{moment} {level.upper()} {self.who} {plain_text(kind, fields)}"
        # A closed pipe or a full disk behind stderr loses the line. It must not fail the input that the line is about:
        # a broker whose log nobody reads must still stop on a signal.
        with suppress(OSError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def plain_text(kind: str, fields: Mapping[str, object]) -> str:
    """An event as a log line shows it: `isr.shrink broker=0 isr='[0, 1]'`."""
    return kind + "".join(f" {name}={_plain(value)}" for name, value in fields.items())


def _plain(value: object) -> str:
    """A value without line breaks, quoted if it contains blanks."""
    text = _shortened(str(value))
    return text if text.isascii() and text.isprintable() and " " not in text and text else repr(text)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}..."
