"""CreateDelegationToken (38), RenewDelegationToken (39), ExpireDelegationToken (40), DescribeDelegationToken (41).

The controller decides about the first three, for the principal that this broker knows to be at the other end. Anonymous
clients may send none of them, nor may those that logged in with a token.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

from tidelog.api.context import Context, Pending
from tidelog.api.to_controller import submit
from tidelog.errors import ErrorCode
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.security.delegation_tokens import USER, Principal, Token, owner_named, principal_of
from tidelog.slices import Sliced, kept_of, made_of
from tidelog.wire.messages.security.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

ANONYMOUS = Principal(USER, "ANONYMOUS")
NONE = -1
TOKENS_AT_ONCE = 200
"""An HMAC is computed for each."""
MOST_PRINCIPALS = 1000
"""In one request: a million of them would hold up the broker."""


def create(request: CreateDelegationTokenRequest, context: Context) -> CreateDelegationTokenResponse | Pending:
    if not may_use_tokens(request, context):
        return refused_creation(request, context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if len(request.renewers) > MOST_PRINCIPALS:
        return refused_creation(request, context, ErrorCode.INVALID_REQUEST)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return refused_creation(request, context, ErrorCode.INVALID_PRINCIPAL_TYPE)
    return _submit(request, context)


def renew(request: RenewDelegationTokenRequest, context: Context) -> RenewDelegationTokenResponse | Pending:
    if not may_use_tokens(request, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NONE)
    return _submit(request, context)


def expire(request: ExpireDelegationTokenRequest, context: Context) -> ExpireDelegationTokenResponse | Pending:
    if not may_use_tokens(request, context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NONE)
    return _submit(request, context)


def describe(request: DescribeDelegationTokenRequest, context: Context) -> Sliced[DescribeDelegationTokenResponse]:
    """The tokens of these owners, or all; an authorizer leaves out those that the client may not see."""
    if not may_use_tokens(request, context):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    tokens = context.broker.tokens.table
    if not tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if len(request.owners or ()) > MOST_PRINCIPALS:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.INVALID_REQUEST)
    found = list(tokens)
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) for owner in request.owners}
        found = yield from kept_of(
            found, lambda token: not owners.isdisjoint((token.owner, token.requester, *token.renewers))
        )
    described = yield from made_of(found, lambda token: _described(token, tokens.hmac(token.id)), TOKENS_AT_ONCE)
    return DescribeDelegationTokenResponse(tokens=described)


def keep_visible(
    response: DescribeDelegationTokenResponse,
    context: Context,
    sees: Callable[[AclOperation, ResourceType, str], bool],
) -> Sliced[None]:
    """Leave the tokens that the client may see: owners, requesters and renewers see theirs without any rule."""
    client, table = principal_of(context.principal), context.broker.tokens.table

    def is_shown(described: DescribedDelegationToken) -> bool:
        token = table.get(described.token_id)
        return token is not None and (
            token.is_about(client)
            or sees(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
            or sees(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
        )

    response.tokens = yield from kept_of(response.tokens, is_shown)


def may_use_tokens(request: Any, context: Context) -> bool:
    """Whether the client is a user who logged in with more than a token, or a broker that forwards for one."""
    if _is_broker(context):
        return ":" in getattr(request, "requester", "")
    by_token = context.authentication is not None and context.authentication.by_token
    return not by_token and principal_of(context.principal) != ANONYMOUS


def _submit(request: Any, context: Context) -> Pending:
    signed = copy(request)
    if not _is_broker(context):
        signed.requester = context.principal
    return submit(signed, context)


def _is_broker(context: Context) -> bool:
    """Whether a broker sent it, which is believed who requested what it forwards."""
    return context.from_broker and context.access is None


def owner_of(request: CreateDelegationTokenRequest, context: Context) -> Principal:
    if request.owner_principal_name:
        return owner_named(request.owner_principal_type, request.owner_principal_name)
    return principal_of(context.principal)


def foreign_owner(request: CreateDelegationTokenRequest, context: Context) -> str | None:
    """The owner, if that is somebody else; None also for clients that may not use tokens: `create` refuses them."""
    owner = str(owner_of(request, context))
    return None if owner == context.principal or not may_use_tokens(request, context) else owner


def refused_creation(
    request: CreateDelegationTokenRequest, context: Context, code: ErrorCode
) -> CreateDelegationTokenResponse:
    owner, requester = owner_of(request, context), principal_of(context.principal)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NONE,
        expiry_timestamp_ms=NONE,
        max_timestamp_ms=NONE,
    )


def _described(token: Token, known: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.id,
        hmac=known,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ],
    )
