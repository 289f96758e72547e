"""`tidelog users`: SCRAM users, whose passwords come from a prompt or a file. A command line is visible to other users
of the machine.

`add` and `change` do what `kafka-configs --entity-type users --add-config 'SCRAM-SHA-512=[password=…]'` does.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.options import CommandFailed, Function, cluster_options

if TYPE_CHECKING:
    from tidelog.shell.transport import Admin

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def _mechanisms(help_text: str) -> Callable[[Function], Function]:
    return click.option(
        "--mechanism", "mechanisms", multiple=True, type=click.Choice(MECHANISMS), help=f"{help_text}; repeatable."
    )


_password_file = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    help="File with the password, - for standard input (default: prompt).",
)
_iterations = click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=4096,
    show_default=True,
    help="Iterations of the password's hash.",
)


@click.group()
def users() -> None:
    """List, add, change and remove SCRAM users."""


@users.command("list")
@cluster_options
def list_(bootstrap_server: str, command_config: str | None) -> None:
    """List users with their mechanisms and iterations."""
    from tidelog.cli.formatting import Column, table_lines
    from tidelog.cli.security import scram_users

    with _admin(bootstrap_server, command_config) as admin:
        found = scram_users.known(admin)
    rows = [(user, each.mechanism, each.iterations) for user in sorted(found) for each in found[user]]
    columns = [Column("USER", 15, grows=True), Column("MECHANISM", 15), Column("ITERATIONS", 0)]
    for line in table_lines(columns, rows):
        click.echo(line)


@users.command()
@cluster_options
@_mechanisms("Mechanism that the user can log in with (default: SCRAM-SHA-512)")
@_password_file
@_iterations
@click.argument("name")
def add(**given: Any) -> None:
    """Add a user."""
    _set_password(**given, is_new=True)


@users.command()
@cluster_options
@_mechanisms("Mechanism whose password changes (default: all that the user has)")
@_password_file
@_iterations
@click.argument("name")
def change(**given: Any) -> None:
    """Change the password of a user."""
    _set_password(**given, is_new=False)


@users.command()
@cluster_options
@_mechanisms("Mechanism to remove (default: all that the user has)")
@click.argument("name")
def remove(bootstrap_server: str, command_config: str | None, mechanisms: Sequence[str], name: str) -> None:
    """Remove a user, or one of the user's mechanisms."""
    from tidelog.cli.security import scram_users

    with _admin(bootstrap_server, command_config) as admin:
        has = _mechanisms_of(admin, name)
        _check_has(name, has, mechanisms)
        for mechanism in mechanisms or has:
            scram_users.alter(admin, deletions=[scram_users.deletion(name, mechanism)])
            click.echo(f"Removed {mechanism} of user {name}.")


def _set_password(
    *,
    bootstrap_server: str,
    command_config: str | None,
    mechanisms: Sequence[str],
    password_file: str | None,
    iterations: int,
    name: str,
    is_new: bool,
) -> None:
    from tidelog.cli.security import scram_users

    with _admin(bootstrap_server, command_config) as admin:
        has = _mechanisms_of(admin, name)
        if is_new:
            mechanisms = mechanisms or ["SCRAM-SHA-512"]
            existing = [mechanism for mechanism in mechanisms if mechanism in has]
            if existing:
                raise CommandFailed(f"User {name} already has {', '.join(existing)}; use `tidelog users change`.")
        else:
            _check_has(name, has, mechanisms)
        password = _password(password_file, name)
        for mechanism in dict.fromkeys(mechanisms or has):
            scram_users.alter(admin, upsertions=[scram_users.upsertion(name, mechanism, password, iterations)])
            click.echo(f"{'Added' if is_new else 'Changed'} {mechanism} of user {name}.")


def _admin(bootstrap_server: str, command_config: str | None) -> "Admin":
    from tidelog.cli.admin_requests import connect

    return connect(bootstrap_server, command_config)


def _mechanisms_of(admin: "Admin", name: str) -> list[str]:
    from tidelog.cli.security import scram_users

    return [each.mechanism for each in scram_users.known(admin, [name]).get(name, [])]


def _check_has(name: str, has: Sequence[str], mechanisms: Sequence[str]) -> None:
    if not has:
        raise CommandFailed(f"There is no SCRAM user {name}.")
    for mechanism in mechanisms:
        if mechanism not in has:
            raise CommandFailed(f"User {name} does not have {mechanism}, but {', '.join(has)}.")


def _password(file: str | None, name: str) -> str:
    """A final newline is not part of it."""
    if file is None:
        found: str = click.prompt(f"Password for {name}", hide_input=True, confirmation_prompt=True)
        return found
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    password = text.removesuffix("\n").removesuffix("\r")
    if not password or "\n" in password:
        raise CommandFailed("--password-file: expected one line with the password.")
    return password
