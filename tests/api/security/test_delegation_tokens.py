"""Delegation tokens as a broker answers: who may ask, what is forwarded for whom, and who sees which token."""

from types import SimpleNamespace

import pytest

from tests.api.fake_context import context, finished
from tidelog.api.authorization import authorize
from tidelog.api.context import PENDING
from tidelog.api.security import delegation_tokens as handlers
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.node.security.authorizer import Authorizer
from tidelog.security.acls import (
    Acl,
    AclIndex,
    AclOperation,
    Binding,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tidelog.security.delegation_tokens import Principal, Token, TokenTable
from tidelog.slices import begun
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

CHANGES = [
    (handlers.create, CreateDelegationTokenRequest()),
    (handlers.renew, RenewDelegationTokenRequest(hmac=b"h")),
    (handlers.expire, ExpireDelegationTokenRequest(hmac=b"h")),
]
EVERY = [*CHANGES, (handlers.describe, DescribeDelegationTokenRequest(owners=None))]
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def asked_by(principal, by_token=None, **more):
    made = context(**more)
    made.principal = principal
    made.authentication = None if by_token is None else SimpleNamespace(by_token=by_token)
    return made


@pytest.mark.parametrize(("handle", "request_"), EVERY, ids=lambda each: getattr(each, "__name__", ""))
def test_nobody_without_a_name_and_nobody_with_a_token_may_ask(handle, request_):
    for refused in (asked_by("User:ANONYMOUS"), asked_by("User:alice", by_token=True)):
        answer = begun(handle(request_, refused))
        assert answer.error_code == NOT_ALLOWED
        assert refused.broker.forwarded == []
        if handle is not handlers.describe:
            assert answer.expiry_timestamp_ms == -1


@pytest.mark.parametrize(("handle", "request_"), CHANGES, ids=lambda each: getattr(each, "__name__", ""))
def test_the_controller_hears_who_asks_whatever_the_client_says(handle, request_):
    request_.requester = "User:root"
    for by_token in (None, False):  # a certificate, a password
        asking = asked_by("User:alice", by_token)
        assert handle(request_, asking) is PENDING
        (forwarded,) = asking.broker.forwarded
        assert forwarded.requester == "User:alice"
        assert request_.requester == "User:root"


@pytest.mark.parametrize(("handle", "request_"), CHANGES, ids=lambda each: getattr(each, "__name__", ""))
def test_between_brokers_the_request_says_who_asks(handle, request_):
    request_.requester = "User:alice"
    asking = asked_by("User:broker", listener="REPLICATION")
    assert handle(request_, asking) is PENDING
    assert asking.broker.controller.handled[0][1].requester == "User:alice"
    request_.requester = ""
    assert handle(request_, asked_by("User:broker", listener="REPLICATION")).error_code == NOT_ALLOWED


@pytest.mark.parametrize(("handle", "request_"), CHANGES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_client_on_the_brokers_listener_cannot_speak_for_another(handle, request_):
    """It got tokens of any user, with their HMAC."""
    request_.requester = "User:root"
    asking = asked_by("User:alice", listener="REPLICATION")
    asking.access = object()  # what an authorizer gives to everybody who is no broker
    assert handle(request_, asking) is PENDING
    assert asking.broker.controller.handled[0][1].requester == "User:alice"


def test_renewers_are_users():
    renewers = [CreatableRenewers(principal_type="Group", principal_name="g")]
    answer = handlers.create(CreateDelegationTokenRequest(renewers=renewers), asked_by("User:alice"))
    assert answer.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")


def test_no_other_division_of_its_name_makes_a_user_another_one():
    request = CreateDelegationTokenRequest(owner_principal_type="User:tenant", owner_principal_name="admin")
    assert handlers.owner_of(request, asked_by("User:tenant:admin")) == Principal("User", "tenant:admin")


def test_a_thousand_principals_are_enough():
    renewers = [CreatableRenewers(principal_type="User", principal_name="g")] * 1001
    asking = asked_by("User:alice")
    assert handlers.create(CreateDelegationTokenRequest(renewers=renewers[:-1]), asking) is PENDING
    answer = handlers.create(CreateDelegationTokenRequest(renewers=renewers), asking)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name="g")] * 1001
    assert finished(handlers.describe(DescribeDelegationTokenRequest(owners=owners[:-1]), asking)).error_code == 0
    answer = finished(handlers.describe(DescribeDelegationTokenRequest(owners=owners), asking))
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_without_a_secret_tokens_are_disabled():
    asking = asked_by("User:alice")
    asking.broker.tokens.table = TokenTable(None)
    answer = finished(handlers.describe(DescribeDelegationTokenRequest(owners=None), asking))
    assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


def described(owners=None, rules=None, principal="User:dan"):
    """The ids of the tokens that are answered."""
    asking = asked_by(principal)
    people = {name: Principal("User", name) for name in ("alice", "bob", "carol")}
    for number, owner in enumerate(people.values()):
        token = Token(f"id-{owner.name}", owner, people["alice"], (people["bob"],) * (number == 2), 1, 3, 2)
        asking.broker.tokens.table.put(token)
    named = None
    if owners is not None:
        named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    request = DescribeDelegationTokenRequest(owners=named)
    if rules is None:
        return [token.token_id for token in finished(handlers.describe(request, asking)).tokens]
    authorizer = Authorizer(BrokerConfig({"node.id": "0"}), asking.effects, lambda: Time(5, 6))
    authorizer.update(AclIndex(rules))
    asking.access = authorizer.access(principal, "host")
    verdict = authorize(request, asking)
    answer = finished(handlers.describe(verdict.request, asking))
    finished(verdict.finish(answer))
    return [token.token_id for token in answer.tokens]


def rule(operation, resource_type, name):
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    return Binding(pattern, Acl("User:dan", "*", operation, Permission.ALLOW))


def test_the_tokens_of_everybody_of_somebody_and_of_nobody():
    assert described() == ["id-alice", "id-bob", "id-carol"]
    assert described(["alice"]) == ["id-alice", "id-bob", "id-carol"], "she requested them all"
    assert described(["bob"]) == ["id-bob", "id-carol"], "he owns one and may renew the other"
    assert described(["dan"]) == described([]) == []


def test_an_authorizer_shows_to_others_what_they_may_describe():
    assert described(rules=[]) == []
    assert described(rules=[], principal="User:bob") == ["id-bob", "id-carol"]
    assert described(["alice"], rules=[], principal="User:bob") == ["id-bob", "id-carol"]
    one = rule(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "id-carol")
    assert described(rules=[one]) == ["id-carol"]
    his = rule(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, "User:bob")
    assert described(rules=[his]) == ["id-bob"]
    assert described(rules=[rule(AclOperation.CREATE_TOKENS, ResourceType.USER, "User:bob")]) == []
