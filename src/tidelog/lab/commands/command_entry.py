"""One line of the table of commands."""

from collections.abc import Callable
from typing import NamedTuple

from tidelog.lab.language import Command, Verb
from tidelog.lab.play import Play

Run = Callable[[Play, Command], None]


class CommandEntry(NamedTuple):
    """How the command is written, and what carries it out."""

    verb: Verb
    run: Run


def entry(usage: str, run: Run, least: int = 0, most: int | None = 0, *options: str) -> CommandEntry:
    return CommandEntry(Verb(usage, least, most, frozenset(options)), run)
