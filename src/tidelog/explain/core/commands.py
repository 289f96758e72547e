"""Whole command lines for the commands that findings advise."""

import shlex
from collections.abc import Callable

from tidelog.explain.core.finding import Advice

CommandLine = Callable[[str], str]
"""Makes the whole command line of a command: `topics --list` → `tidelog topics --bootstrap-server … --list`."""

SUBCOMMANDS = ("cluster", "delegation-tokens", "explain", "users")
"""Groups of commands whose subcommands take the options that name the cluster."""
WITHOUT_CLUSTER = ("broker", "metadata", "up")
"""Commands that do not ask brokers."""


def command_line(bootstrap: str, command_config: str | None = None) -> CommandLine:
    """A function that completes commands for this cluster."""
    options = ["--bootstrap-server", bootstrap]
    if command_config is not None:
        options += ["--command-config", shlex.quote(command_config)]

    def complete(text: str) -> str:
        words = text.split(" ")
        if words[0] in WITHOUT_CLUSTER:
            return f"tidelog {text}"
        named = 2 if words[0] in SUBCOMMANDS else 1
        return " ".join(["tidelog", *words[:named], *options, *words[named:]])

    return complete


def sentence(advice: Advice, complete: CommandLine) -> str:
    """The advice with its whole command line."""
    return f"{advice.text} {complete(advice.command)}".strip() if advice.command else advice.text
