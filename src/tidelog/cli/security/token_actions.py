"""What `tidelog delegation-tokens` does: prints what kafka-delegation-tokens prints."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click

from tidelog.cli.admin_requests import describe_error
from tidelog.cli.formatting import Column, table_lines
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import ANY
from tidelog.shell.transport import Admin
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

Principals = Sequence[tuple[str, str]]
"""(type, name)."""

_COLUMNS = (
    Column("TOKENID", 15),
    Column("HMAC", 30),
    Column("OWNER", 15),
    Column("REQUESTER", 15),
    Column("RENEWERS", 25),
    Column("ISSUEDATE", 15),
    Column("EXPIRYDATE", 15),
    Column("MAXDATE", 15),
)


class Row(NamedTuple):
    """A token as a line of the table."""

    token_id: str
    hmac: bytes
    owner: str
    requester: str
    renewers: str
    times: Sequence[int]

    @property
    def cells(self) -> tuple[str, ...]:
        hmac = b64encode(self.hmac).decode()
        return (self.token_id, hmac, self.owner, self.requester, self.renewers, *map(_moment, self.times))


def create(admin: Admin, owners: Principals, renewers: Principals, max_lifetime_ms: int) -> None:
    """Create a token for the first owner, or for the user who logged in."""
    listed = _listed(renewers)
    click.echo(f"Calling create token operation with renewers :{listed} , max-life-time-period :{max_lifetime_ms}")
    kind, name = owners[0] if owners else (None, None)
    made = _ask(
        admin,
        CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=max_lifetime_ms,
        ),
    )
    click.echo(f"Created delegation token with tokenId : {made.token_id}")
    times = (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms)
    _print([Row(made.token_id, bytes(made.hmac), *_people(made), listed, times)])


def renew(admin: Admin, text: str, hmac: bytes, period_ms: int) -> None:
    click.echo(f"Calling renew token operation with hmac :{text} , renew-time-period :{period_ms}")
    answer = _ask(admin, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
    click.echo(f"Completed renew operation. New expiry date : {_moment(answer.expiry_timestamp_ms)}")


def expire(admin: Admin, text: str, hmac: bytes, period_ms: int) -> None:
    click.echo(f"Calling expire token operation with hmac :{text} , expire-time-period :{period_ms}")
    answer = _ask(admin, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
    click.echo(f"Completed expire operation. New expiry date : {_moment(answer.expiry_timestamp_ms)}")


def describe(admin: Admin, owners: Principals) -> None:
    """List the tokens of these owners, or all that the user may see."""
    if owners:
        click.echo(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        click.echo("Calling describe token operation for current user.")
    named = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in owners]
    tokens = _ask(admin, DescribeDelegationTokenRequest(owners=named or None)).tokens
    click.echo(f"Total number of tokens : {len(tokens)}", nl=False)
    rows = []
    for token in tokens:
        renewers = _listed([(each.principal_type, each.principal_name) for each in token.renewers])
        times = (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)
        rows.append(Row(token.token_id, bytes(token.hmac), *_people(token), renewers, times))
    _print(rows)


def _ask(admin: Admin, request: Any) -> Any:
    response = admin.ask(request, ANY)
    if response.error_code:
        raise CommandFailed(describe_error(response.error_code))
    return response


def _people(token: Any) -> tuple[str, str]:
    """Owner and requester."""
    return (
        f"{token.principal_type}:{token.principal_name}",
        f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
    )


def _listed(principals: Principals) -> str:
    return f"[{', '.join(f'{kind}:{name}' for kind, name in principals)}]"


def _print(rows: Iterable[Row]) -> None:
    for line in table_lines(_COLUMNS, [row.cells for row in rows]):
        click.echo(f"\n{line}")


def _moment(ms: int) -> str:
    """The local time, to the minute."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%Y-%m-%dT%H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"  # beyond the year 9999
