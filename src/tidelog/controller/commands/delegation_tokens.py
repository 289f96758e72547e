"""Delegation tokens created, renewed, expired and swept (KIP-48), kept below `/delegation_token` as Kafka 3 did.

The broker that received a request has checked who may send it, and says in `requester` who did. Every change is
announced by a notification, and mirrored by every broker (`node/security/delegation_tokens.py`).
"""

from collections.abc import Sequence

from tidelog.controller import tree
from tidelog.controller.commands.configs import NOTIFICATIONS
from tidelog.controller.controller_term import ControllerTerm
from tidelog.controller.journal import Group, Steps, submit
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import id_text
from tidelog.ports import Change, Create, Delete, Write
from tidelog.security.delegation_tokens import USER, Principal, Token, owner_named, principal_of
from tidelog.wire.messages.security.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

MOST_BYTES = 65_536
"""Of a token's node: thousands of renewers would be more than ZooKeeper takes."""
END_OF_TIME = (1 << 63) - 1


def create_token(term: ControllerTerm, request: CreateDelegationTokenRequest) -> Steps[CreateDelegationTokenResponse]:
    requester = principal_of(request.requester)
    owner = requester
    if request.owner_principal_name:
        owner = owner_named(request.owner_principal_type, request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
    )
    try:
        token = _new(term, request, owner, requester)
    except ApiError as error:
        response.error_code = error.code
        return response
    yield from _write(
        term, [Create(tree.delegation_token_path(token.id), tree.format_delegation_token(token))], [token.id]
    )
    term.cluster.token_versions[token.id] = 0
    term.cluster.tokens.put(token)
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued_ms, token.expires_ms
    response.max_timestamp_ms, response.token_id = token.max_ms, token.id
    response.hmac = term.cluster.tokens.hmac(token.id)
    term.report("token.created", id=token.id, owner=str(owner), requester=str(requester))
    return response


def _new(term: ControllerTerm, request: CreateDelegationTokenRequest, owner: Principal, requester: Principal) -> Token:
    _check_enabled(term)
    config, now = term.config, term.now.wall
    lifetime_ms = config.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _later(now, lifetime_ms)
    expires_ms = min(max_ms, _later(now, config.delegation_token_expiry_time_ms))
    renewers = tuple(Principal(each.principal_type, each.principal_name) for each in request.renewers)
    if any(renewer.type != USER for renewer in renewers):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    first, *others = term.entropy(16)
    # An id that begins with a hyphen would be an option on a command line.
    token = Token(id_text(bytes([first & 0x7F, *others])), owner, requester, renewers, now, max_ms, expires_ms)
    if len(tree.format_delegation_token(token)) > MOST_BYTES:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return token


def renew_token(term: ControllerTerm, request: RenewDelegationTokenRequest) -> Steps[RenewDelegationTokenResponse]:
    try:
        token = _found(term, request.hmac)
        _check_valid(term, token)
        _check_renewer(token, request.requester)
    except ApiError as error:
        return RenewDelegationTokenResponse(error_code=error.code)
    period_ms = term.config.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    moved = yield from _move_end(term, token, period_ms)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=moved)


def expire_token(term: ControllerTerm, request: ExpireDelegationTokenRequest) -> Steps[ExpireDelegationTokenResponse]:
    """A negative period removes the token."""
    try:
        token = _found(term, request.hmac)
        _check_renewer(token, request.requester)
        if request.expiry_time_period_ms < 0:
            yield from _remove(term, [token.id], request.requester)
            return ExpireDelegationTokenResponse(expiry_timestamp_ms=term.now.wall)
        _check_valid(term, token)
    except ApiError as error:
        return ExpireDelegationTokenResponse(error_code=error.code)
    moved = yield from _move_end(term, token, request.expiry_time_period_ms)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=moved)


def remove_expired_tokens(term: ControllerTerm) -> Steps[None]:
    """Remove the tokens that have expired."""
    now = term.now.wall
    expired = [token.id for token in term.cluster.tokens if token.is_expired(now)]
    yield from _remove(term, expired, "")


def _check_enabled(term: ControllerTerm) -> None:
    if not term.cluster.tokens.is_enabled:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)


def _found(term: ControllerTerm, known: bytes) -> Token:
    _check_enabled(term)
    token = term.cluster.tokens.by_hmac(known)
    if token is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_valid(term: ControllerTerm, token: Token) -> None:
    if token.is_expired(term.now.wall):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(token: Token, requester: str) -> None:
    if not token.may_renew(principal_of(requester)):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _later(now: int, duration: int) -> int:
    return min(now + duration, END_OF_TIME)


def _move_end(term: ControllerTerm, token: Token, period_ms: int) -> Steps[int]:
    """The token's new end, at most `period_ms` from now."""
    moved = token._replace(expires_ms=min(token.max_ms, _later(term.now.wall, period_ms)))
    path, version = tree.delegation_token_path(token.id), term.cluster.token_versions[token.id]
    yield from _write(term, [Write(path, tree.format_delegation_token(moved), version)], [token.id])
    term.cluster.token_versions[token.id] = version + 1
    term.cluster.tokens.put(moved)
    term.report("token.renewed", id=token.id, expires_ms=moved.expires_ms)
    return moved.expires_ms


def _remove(term: ControllerTerm, ids: Sequence[str], requester: str) -> Steps[None]:
    if not ids:
        return
    versions = term.cluster.token_versions
    yield from _write(term, [Delete(tree.delegation_token_path(each), versions[each]) for each in ids], ids)
    for each in ids:
        del versions[each]
        term.cluster.tokens.remove(each)
        term.report("token.removed", id=each, requester=requester)


def _write(term: ControllerTerm, changes: Sequence[Change], ids: Sequence[str]) -> Steps[None]:
    """Change the nodes of these tokens, announce each, and forget the oldest notifications."""
    cluster = term.cluster
    number = max(cluster.token_changes, default=-1) + 1
    groups: list[Group] = [[Create(path) for path in cluster.missing_token_nodes]]
    for offset, (change, token_id) in enumerate(zip(changes, ids, strict=True)):
        groups.append([change, Create(tree.delegation_token_change_path(number + offset), token_id.encode())])
    known = [*cluster.token_changes, *range(number, number + len(ids))]
    outdated = known[: max(0, len(known) - NOTIFICATIONS)]
    groups += [[Delete(tree.delegation_token_change_path(old))] for old in outdated]
    yield from submit(groups)
    cluster.missing_token_nodes = ()
    cluster.token_changes = known[len(outdated) :]
