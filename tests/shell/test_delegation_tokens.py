"""Delegation tokens from end to end: created through any broker, used on every broker, and gone when they are expired."""

from base64 import b64encode
from contextlib import suppress

import pytest

from tests.shell.test_sasl import WANTS
from tests.shell.test_tls import port_of
from tests.waiting import wait_for
from tidelog.errors import ApiError, ErrorCode
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tidelog.wire.messages.topics.metadata import MetadataRequest

SECRET = "the cluster's secret"
OPTIONS = {
    **WANTS,
    "delegation.token.secret.key": SECRET,
    "connection.failed.authentication.delay.ms": "0",  # tests wait for refusals
}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=2, options=OPTIONS) as made:
        yield made


def admin(broker, user, password, mechanism="PLAIN", token=False):
    jaas = f'x.LoginModule required username="{user}" password="{password}"{" tokenauth=true" if token else ""};'
    return Admin(
        f"127.0.0.1:{port_of(broker, 'SASL_PLAINTEXT')}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_jaas_config=jaas,
    )


def alice(broker):
    return admin(broker, "alice", "wonder land")


def ask(client, broker, request):
    return client.ask(request, broker.id)


def logs_in(broker, made, mechanism="SCRAM-SHA-512"):
    with (
        suppress(ApiError),
        admin(broker, made.token_id, b64encode(made.hmac).decode(), mechanism, token=True) as client,
    ):
        return bool(client.ask(MetadataRequest(topics=[])).brokers)
    return False


def test_a_token_is_made_used_renewed_and_expired_through_every_broker(cluster):
    for broker, mechanism in zip(cluster.brokers, ("SCRAM-SHA-256", "SCRAM-SHA-512"), strict=True):
        with alice(broker) as client:
            renewers = [CreatableRenewers(principal_type="User", principal_name="brokers")]
            made = ask(client, broker, CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=-1))
            assert (made.error_code, made.principal_name) == (0, "alice")
            for each in cluster.brokers:
                wait_for(lambda at=each, by=made, how=mechanism: logs_in(at, by, how), "the token is known")
            with admin(broker, "brokers", "b secret") as renewer:
                renewed = ask(renewer, broker, RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=60_000))
            assert renewed.expiry_timestamp_ms < made.expiry_timestamp_ms
            (known,) = ask(client, broker, DescribeDelegationTokenRequest(owners=None)).tokens
            assert (known.token_id, bytes(known.hmac), known.principal_name) == (made.token_id, made.hmac, "alice")
            ended = ask(client, broker, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1))
            assert ended.error_code == 0
            for each in cluster.brokers:
                wait_for(lambda at=each, by=made: not logs_in(at, by), "the token is gone")


def test_who_logged_in_with_a_token_makes_no_other(cluster):
    broker = cluster.brokers[0]
    with alice(broker) as client:
        made = ask(client, broker, CreateDelegationTokenRequest(max_lifetime_ms=-1))
    wait_for(lambda: logs_in(broker, made), "the token is known")
    with admin(broker, made.token_id, b64encode(made.hmac).decode(), "SCRAM-SHA-256", token=True) as client:
        for request in (
            CreateDelegationTokenRequest(max_lifetime_ms=-1),
            RenewDelegationTokenRequest(hmac=made.hmac),
            ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1),
            DescribeDelegationTokenRequest(owners=None),
        ):
            answer = ask(client, broker, request)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    with Admin(broker.address) as anonymous:
        answer = ask(anonymous, broker, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_an_expired_token_does_not_log_in_before_it_is_swept(cluster):
    broker = cluster.brokers[0]
    with alice(broker) as client:
        made = ask(client, broker, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        wait_for(lambda: logs_in(broker, made), "the token is known")
        ask(client, broker, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=0))
        wait_for(lambda: not logs_in(broker, made), "the token has expired")
        left = ask(client, broker, DescribeDelegationTokenRequest(owners=None)).tokens
        assert made.token_id in {token.token_id for token in left}
        answer = ask(client, broker, RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1))
        assert answer.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_no_line_of_a_broker_holds_an_hmac_or_the_secret(cluster):
    broker = cluster.brokers[0]
    with alice(broker) as client:
        made = ask(client, broker, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        ask(client, broker, ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1))
    said = repr([each.logger.lines for each in cluster.brokers])
    assert made.token_id in said, "the lines are those of this test"
    for secret in (SECRET, b64encode(made.hmac).decode(), made.hmac.hex()):
        assert secret not in said
