"""DescribeUserScramCredentials (50): the SCRAM credentials of users, by mechanism and iterations (KIP-554)."""

from collections import Counter

from tidelog.api.context import Context
from tidelog.errors import ErrorCode
from tidelog.security import scram
from tidelog.slices import Sliced, made_of
from tidelog.wire.messages.security.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

USERS_AT_ONCE = 200
"""A credential is parsed in some ten microseconds."""


def handle(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> Sliced[DescribeUserScramCredentialsResponse]:
    """Those that are named, or every user with credentials."""
    if request.users:
        counted = Counter(user.name for user in request.users)
        results = [_result(name, times, context) for name, times in counted.items()]
    else:
        users = sorted(context.broker.configs.users())
        results = yield from made_of(users, lambda name: _existing(name, context), USERS_AT_ONCE)
    return DescribeUserScramCredentialsResponse(results=results)


def _existing(name: str, context: Context) -> DescribeUserScramCredentialsResult | None:
    result = _result(name, 1, context)
    return None if result.error_code else result


def _result(name: str, times: int, context: Context) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"The user {name!r} may be named once in a request."
        return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
    values = context.broker.configs.user(name)
    known = {
        each: scram.parse_credential(values[each.name]) for each in scram.BY_NUMBER.values() if each.name in values
    }
    found = [
        CredentialInfo(mechanism=mechanism.number, iterations=credential.iterations)
        for mechanism, credential in known.items()
        if credential is not None
    ]
    if not found:
        code, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user {name!r} has no SCRAM credentials."
        return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
    return DescribeUserScramCredentialsResult(user=name, credential_infos=found)
