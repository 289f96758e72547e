"""The same requests about delegation tokens to a real Kafka and to Tidelog: the same answers."""

import time

from tests.shell.logins import log_in, log_in_by_token
from tests.shell.test_sasl import WANTS, Wire, add_user
from tests.shell.test_tls import port_of
from tests.waiting import wait_for
from tidelog.testing import Cluster
from tidelog.wire.messages.security.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

HOUR_MS = 3_600_000


def create(wire, lifetime=-1, renewer=("User", "carol"), version=3, **owner):
    renewers = [CreatableRenewers(principal_type=renewer[0], principal_name=renewer[1])]
    return wire.ask(38, version, CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=lifetime, **owner))


def renew(wire, hmac, period=-1, version=2):
    return wire.ask(39, version, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period))


def expire(wire, hmac, period=-1, version=2):
    return wire.ask(40, version, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period))


def describe(wire, *owners, version=3):
    named = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners if name]
    return wire.ask(41, version, DescribeDelegationTokenRequest(owners=None if None in owners else named))


NAMES = ("principal_type", "principal_name", "token_requester_principal_type", "token_requester_principal_name")
MOMENTS = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")


def plain(answer):
    """Code, names and times; times relative to now, to the hour, unless they are a fixed number."""
    found = [answer.error_code, *(getattr(answer, name, None) for name in NAMES)]
    found += [_when(getattr(answer, name, None)) for name in MOMENTS]
    if hasattr(answer, "tokens"):
        found.append(sorted(token.principal_name for token in answer.tokens))
    return [*found, len(getattr(answer, "hmac", b""))]


def _when(moment):
    return moment if moment in (None, 0, -1) else f"in {round((moment / 1000 - time.time()) / 3600)} h"


class Told(dict):
    """What was answered, by what it was an answer to."""

    def __call__(self, label, answer):
        assert label not in self
        self[label] = plain(answer)
        return answer


def script(plaintext, secured):
    told = Told()
    with Wire(plaintext) as nobody, Wire(secured) as alice, Wire(secured) as bob:
        assert log_in(alice, "alice", "wonder land", "PLAIN").error_code == 0
        assert log_in(bob, "bob", "builder").error_code == 0
        refusals(told, nobody, "anonymous")
        told("renewer of another type", create(alice, renewer=("Group", "g")))
        made = told("created", create(alice))
        told("older create", older := create(alice, version=1, lifetime=HOUR_MS))
        told("for bob", for_bob := create(alice, owner_principal_type="User", owner_principal_name="bob"))
        group = {"owner_principal_type": "Group", "owner_principal_name": "g"}
        told("owner of another type", odd := create(alice, renewer=("User", "alice"), **group))
        every = [made, older, for_bob, odd]
        wait_for(lambda: len(describe(alice, None).tokens) == len(every), "all tokens")
        for label, owners in {
            "all": [None],
            "none": [],
            "bob's": ["bob"],
            "carol's": ["carol"],
            "dan's": ["dan"],
        }.items():
            told(f"describe {label}", describe(alice, *owners))
        told("described to bob", describe(bob, None))
        told("older describe", describe(alice, None, version=1))
        for label, hmac in {"unknown": b"unknown", "empty": b"", "known": made.hmac}.items():
            for who, wire in {"alice": alice, "bob": bob}.items():
                told(f"{who} renews {label}", renew(wire, hmac, HOUR_MS))
                told(f"{who} expires {label}", expire(wire, hmac, 2 * HOUR_MS))
        told("renewed beyond its life", renew(alice, older.hmac, 100 * HOUR_MS, version=1))
        told("renewed for 0", renew(alice, made.hmac, 0))
        by_token(told, secured, made)
        short = create(alice, lifetime=1)
        wait_for(lambda: renew(alice, short.hmac).error_code == 66, "it expires")
        told("alice renews expired", renew(alice, short.hmac))
        told("bob renews expired", renew(bob, short.hmac))
        told("alice expires expired", expire(alice, short.hmac, 1000))
        told("bob expires expired", expire(bob, short.hmac, 1000))
        for number, each in enumerate([*every, short]):
            removed = told(f"bob removes {number}", expire(bob, each.hmac))
            if removed.error_code == 0:  # a broker forgets the token only when it hears of it, after the answer
                wait_for(lambda gone=each: not described_to(bob, gone), "bob's token is gone")
            told(f"alice removes {number}", expire(alice, each.hmac, version=1))
        wait_for(lambda: describe(alice, None).tokens == [], "all are gone")
    with Wire(secured) as wire:
        told("login with a token that is gone", log_in_by_token(wire, made))
    return told


def described_to(wire, token):
    return token.token_id in {each.token_id for each in describe(wire, None).tokens}


def refusals(told, wire, who):
    told(f"{who} creates", create(wire))
    told(f"{who} renews", renew(wire, b"x"))
    told(f"{who} expires", expire(wire, b"x"))
    told(f"{who} describes", describe(wire, None))


def by_token(told, secured, made):
    with Wire(secured) as wire:
        login = told("login", log_in_by_token(wire, made))
        assert 0 < login.session_lifetime_ms <= 24 * HOUR_MS
        refusals(told, wire, "a token")
    with Wire(secured) as wire:
        told("login as a user of the token's name", log_in(wire, made.token_id, "x"))


def test_the_same_answers(secured_kafka):
    ports, _ = secured_kafka
    theirs = script(ports["PLAINTEXT"], ports["SASL_PLAINTEXT"])
    with Cluster(brokers=1, options={**WANTS, "delegation.token.secret.key": "the secret"}) as cluster:
        add_user(cluster.brokers[0], "bob", "builder")
        ours = script(cluster.brokers[0].port, port_of(cluster.brokers[0], "SASL_PLAINTEXT"))
    assert theirs["created"][0] == 0
    assert ours == theirs
