"""SCRAM users of a cluster, for `tidelog users` and `tidelog configs`; passwords are salted here."""

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tidelog.cli.admin_requests import describe_error
from tidelog.cli.options import CommandFailed
from tidelog.client.admin import ANY
from tidelog.errors import ErrorCode
from tidelog.security import scram
from tidelog.shell.transport import Admin
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)

SEED_BYTES = 32


class Known(NamedTuple):
    """A credential that brokers have: they report nothing more of it."""

    mechanism: str
    iterations: int


def known(admin: Admin, names: Sequence[str] = ()) -> dict[str, list[Known]]:
    """The credentials of these users, or of all; users without any are left out."""
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    response = admin.ask(request, ANY)
    if response.error_code:
        raise CommandFailed(describe_error(response.error_code, response.error_message))
    found = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            raise CommandFailed(describe_error(result.error_code, result.error_message))
        found[result.user] = [
            Known(_name_of(info.mechanism), info.iterations)
            for info in sorted(result.credential_infos, key=lambda info: info.mechanism)
        ]
    return found


def _name_of(number: int) -> str:
    mechanism = scram.BY_NUMBER.get(number)
    return f"mechanism {number}" if mechanism is None else mechanism.name


def upsertion(user: str, mechanism: str, password: str, iterations: int) -> ScramCredentialUpsertion:
    """The credential that a password gives: the password itself is not sent."""
    which, salt = scram.MECHANISMS[mechanism], scram.salt_of(os.urandom(SEED_BYTES))
    return ScramCredentialUpsertion(
        name=user,
        mechanism=which.number,
        iterations=iterations,
        salt=salt,
        salted_password=scram.salted(which, password, salt, iterations),
    )


def deletion(user: str, mechanism: str) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=scram.MECHANISMS[mechanism].number)


def alter(
    admin: Admin, deletions: Iterable[ScramCredentialDeletion] = (), upsertions: Iterable[ScramCredentialUpsertion] = ()
) -> None:
    """One request; a user may be in it only once."""
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    for result in admin.ask(request).results:
        if result.error_code:
            raise CommandFailed(describe_error(result.error_code, result.error_message))
