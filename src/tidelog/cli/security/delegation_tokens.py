"""`tidelog delegation-tokens`, with the flags and the output of kafka-delegation-tokens."""

from base64 import b64decode
from binascii import Error as NotBase64
from pathlib import Path
from typing import Any

import click

from tidelog.cli.options import (
    CommandFailed,
    check_applicable,
    check_required,
    cluster_options,
    flag,
    single_action,
    usage_error,
)

ACTIONS = ("create", "renew", "expire", "describe")
ACTIONS_OF_OPTION = {
    "owner-principal": ("create", "describe"),
    "renewer-principal": ("create",),
    "max-life-time-period": ("create",),
    "renew-time-period": ("renew",),
    "expiry-time-period": ("expire",),
    "hmac": ("renew", "expire"),
}
REQUIRED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}


@click.command()
@cluster_options
@flag("create", "Create a token.")
@flag("renew", "Extend the life of a token.")
@flag("expire", "Shorten or end the life of a token.")
@flag("describe", "List tokens with their HMAC.")
@click.option(
    "--owner-principal",
    multiple=True,
    help="Owner of the token, or of the tokens to list, as User:NAME (default: the user who logs in).",
)
@click.option("--renewer-principal", multiple=True, help="Who else can renew the token, as User:NAME; repeatable.")
@click.option("--max-life-time-period", type=int, help="Maximum lifetime in milliseconds; -1: the broker's default.")
@click.option("--renew-time-period", type=int, help="Time until expiry in milliseconds; -1: the broker's default.")
@click.option("--expiry-time-period", type=int, help="Time until expiry in milliseconds; -1: remove the token.")
@click.option("--hmac", help="HMAC of the token, or @FILE: a command line is visible to other users.")
def delegation_tokens(**given: Any) -> None:
    """Create, renew, expire and list delegation tokens."""
    action = single_action(given, ACTIONS)
    check_applicable(given, action, ACTIONS_OF_OPTION)
    check_required(given, action, REQUIRED[action])
    owners, renewers = (
        [_principal(text, option) for text in given[option.replace("-", "_")]]
        for option in ("owner-principal", "renewer-principal")
    )
    from tidelog.cli.admin_requests import connect
    from tidelog.cli.security import token_actions

    with connect(given["bootstrap_server"], given["command_config"]) as admin:
        if action == "create":
            token_actions.create(admin, owners, renewers, given["max_life_time_period"])
        elif action == "describe":
            token_actions.describe(admin, owners)
        else:
            text, hmac = _hmac(given["hmac"])
            period = given[f"{'renew' if action == 'renew' else 'expiry'}_time_period"]
            (token_actions.renew if action == "renew" else token_actions.expire)(admin, text, hmac, period)


def _principal(text: str, option: str) -> tuple[str, str]:
    kind, colon, name = text.strip().partition(":")
    if not (kind and colon and name):
        raise usage_error(f"--{option}: {text!r} is not a principal; expected User:NAME.")
    return kind, name


def _hmac(given: str) -> tuple[str, bytes]:
    """The HMAC in base64, and its bytes."""
    text = Path(given[1:]).read_text(encoding="utf-8").strip() if given.startswith("@") else given
    try:
        return text, b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise CommandFailed("--hmac is not in base64.") from None
