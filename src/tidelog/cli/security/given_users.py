"""The SCRAM users of `--add-scram`, for `tidelog up` and `tidelog storage format`."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.security.added_users import User, parse


def given_users(given: Sequence[str]) -> list[User]:
    """The users of `--add-scram`; other users of the machine can see what is on the command line."""
    texts: list[str] = []
    for text in given:
        if text.startswith("@"):
            lines = Path(text[1:]).read_text(encoding="utf-8").splitlines()
            texts += [line for line in lines if line.strip() and not line.startswith("#")]
        else:
            click.echo("A password on the command line is visible to other users: use --add-scram @FILE.", err=True)
            texts.append(text)
    return [parse(text, os.urandom) for text in texts]
