"""A group of commands that imports a command only when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click


class Command(NamedTuple):
    """Where a command is (`module:attribute`), and what it does in one sentence."""

    place: str
    sentence: str


class LazyGroup(click.Group):
    """`--help` lists the sentences of the table and imports nothing."""

    def __init__(
        self,
        *arguments: object,
        table: dict[str, Command],
        aliases: Mapping[str, str] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]
        self._table = table
        self._aliases = aliases or {}

    def list_commands(self, _context: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """By its name in the table, or by that of the script that it stands for: `bin/kafka-topics.sh`."""
        script = name.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
        name = self._aliases.get(script, script)
        if name not in self._table:
            return None
        module, _, attribute = self._table[name].place.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.sentence) for name, command in self._table.items()])
