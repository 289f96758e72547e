"""Faults within a compaction: a process is killed, or the power goes, while a log's files are written and exchanged."""

from collections.abc import Mapping

from tidelog.sim.nemesis.moments import trap
from tidelog.sim.nemesis.strike import Kind, Strike

STEPS = (
    ("rename", ".cleaned"),
    ("rename", ".cleaned"),
    ("rename", ".swap"),
    ("rename", ".swap"),
    ("write", ".cleaned"),
    ("sync", ".cleaned"),
    ("rename", ".log"),
)


def at_exchange(strike: Strike) -> None:
    """Somewhere in the exchange of files that comes next: a segment has up to four."""
    trap(strike, *strike.random.choice(STEPS), strike.random.choice((0, 1, 2, 3, 4, 6)))


KINDS: Mapping[str, Kind] = {"at_exchange": at_exchange}
