"""Tokens: the HMAC as Kafka computes it, the login that it gives, and its end."""

import hashlib
import hmac
from base64 import b64encode

from tests.security.test_scram import begun, log_in
from tidelog.controller import tree
from tidelog.security import scram
from tidelog.security.delegation_tokens import Principal, Token, TokenTable

ALICE, BOB, CAROL = (Principal("User", name) for name in ("alice", "bob", "ca,rol=é/"))
TOKEN = Token("id-1", ALICE, BOB, (CAROL,), issued_ms=100, max_ms=2000, expires_ms=1000)


def table(*tokens):
    made = TokenTable("the secret")
    for token in tokens:
        made.put(token)
    return made


def test_the_hmac_is_that_of_the_id_under_the_secret():
    made = table(TOKEN)
    assert made.hmac("id-1") == hmac.new(b"the secret", b"id-1", hashlib.sha512).digest()
    assert made.by_hmac(memoryview(made.hmac("id-1"))) == TOKEN
    assert made.by_hmac(b"") is None
    assert "secret" not in repr(made)


def test_the_id_and_the_hmac_log_the_owner_in_with_either_mechanism_until_the_token_expires():
    made = table(TOKEN)
    for mechanism in scram.MECHANISMS.values():

        def lookup(name, by_token, mechanism=mechanism):
            return made.account(mechanism, name, 1000) if by_token else None

        password = b64encode(made.hmac("id-1")).decode()
        client = scram.client(mechanism, "id-1", password, "n", by_token=True)
        assert log_in(client, begun(mechanism, lookup)) == "alice"
        assert made.account(mechanism, "id-1", 1000).expires_at == 1000
        assert made.account(mechanism, "id-1", 1001) is None
        assert made.account(mechanism, "id-2", 0) is None


def test_the_token_of_an_owner_who_is_no_user_logs_nobody_in():
    made = table(TOKEN._replace(owner=Principal("Group", "alice")))
    assert made.account(scram.MECHANISMS["SCRAM-SHA-256"], "id-1", 0) is None


def test_all_brokers_give_a_token_the_same_credential():
    mechanism = scram.MECHANISMS["SCRAM-SHA-256"]
    assert table(TOKEN).account(mechanism, "id-1", 0) == table(TOKEN).account(mechanism, "id-1", 0)


def test_its_end_moves_and_never_beyond_its_life():
    made = table(TOKEN)
    made.put(TOKEN._replace(expires_ms=5000))
    assert made.account(scram.MECHANISMS["SCRAM-SHA-256"], "id-1", 1500).expires_at == 2000
    assert not TOKEN._replace(expires_ms=5000).is_expired(2000)
    assert TOKEN._replace(expires_ms=5000).is_expired(2001)
    made.remove("id-1")
    assert list(made) == []
    assert made.by_hmac(table(TOKEN).hmac("id-1")) is None


def test_who_may_renew_it_and_who_sees_it():
    assert [TOKEN.may_renew(who) for who in (ALICE, BOB, CAROL, Principal("Group", "alice"))] == [
        *(True, False, True),
        False,
    ]
    assert [TOKEN.is_about(who) for who in (ALICE, BOB, CAROL, Principal("User", "dan"))] == [True, True, True, False]


def test_it_is_stored_as_kafka_3_stored_it_without_its_hmac():
    stored = tree.format_delegation_token(TOKEN)
    assert stored == (
        b'{"version":3,"owner":"User%3Aalice","tokenRequester":"User%3Abob",'
        b'"renewers":["User%3Aca%2Crol%3D%C3%A9%2F"],"issueTimestamp":100,"maxTimestamp":2000,'
        b'"expiryTimestamp":1000,"tokenId":"id-1"}'
    )
    assert tree.readable_token("id-1", stored) == TOKEN
    assert tree.readable_token("id-2", stored) is None


def test_one_of_an_older_kafka_was_requested_by_its_owner_and_nonsense_is_none():
    older = b'{"version":1,"owner":"User%3Aalice","renewers":[],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,"tokenId":"x"}'
    assert tree.readable_token("x", older) == Token("x", ALICE, ALICE, (), 1, 3, 2)
    for nonsense in (
        b"",
        b"[]",
        b"{}",
        b"\xff",
        older.replace(b"User%3Aalice", b"alice"),
        older.replace(b":3,", b':"x",'),
    ):
        assert tree.readable_token("x", nonsense) is None
