"""The messages of OAUTHBEARER, and a whole exchange as a listener sees it."""

import pytest

from tests.security.test_access_tokens import GIVEN, NOW_S, PROVIDER
from tests.security.tokens import first_message
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security import oauthbearer, sasl
from tidelog.security.access_tokens import KeySet
from tidelog.security.oauthbearer import Malformed, parse_first
from tidelog.security.sasl import Failed, LoggedIn, SaslListener

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
OPTIONS = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "oauthbearer.sasl.jaas.config": LOGIN,
    **{f"oauthbearer.{name}": text for name, text in GIVEN.items()},
}


def exchange():
    keys = KeySet(PROVIDER.jwks)
    listener = SaslListener(
        BrokerConfig(OPTIONS),
        lambda *_: None,
        bytes,
        find_key=lambda url, *key: keys.find(*key),
        now=lambda: NOW_S * 1000,
    )
    return listener.exchange("OAUTHBEARER")


def logged_in(message):
    with pytest.raises(StopIteration) as end:
        exchange().send(message)
    return end.value.value


def test_a_first_message_is_read():
    assert parse_first(b"n,,\x01auth=Bearer a.b.c\x01\x01") == ("", "a.b.c")
    assert parse_first(b"n,a=x=2Cy=3D,\x01host=h\x01auth=bEaReR  a-._~+/b==\x01port=1\x01\x01") == (
        "x,y=", "a-._~+/b==",
    )  # fmt: skip
    assert "a.b.c" not in repr(parse_first(b"n,,\x01auth=Bearer a.b.c\x01\x01"))


@pytest.mark.parametrize(
    "message",
    [
        b"", b"\x01", b"n,,", b"n,,\x01\x01", b"n,,\x01auth=Bearer a\x01", b"y,,\x01auth=Bearer a\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer a\x01\x01", b"n,,\x01auth=Basic dTpw\x01\x01", b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=a.b.c\x01\x01", b"n,,\x01auth=Bearer a b\x01\x01", b"n,,\x01auth=Bearer \xc3\xa9\x01\x01",
        b"n,,\x01host=h\x01\x01", b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01", b"n,a=,\x01auth=Bearer a\x01\x01",
        b"n,a=x=y,\x01auth=Bearer a\x01\x01", b"\xff\xfe", b"n,,\x01auth=Bearer a\x01\x01x",
        b"n,,\x01auth=Bearer " + b"a" * oauthbearer.MOST_BYTES + b"\x01\x01",
    ],
)  # fmt: skip
def test_what_is_not_a_first_message_is_refused_at_once(message):
    with pytest.raises(Malformed):
        parse_first(message)
    with pytest.raises(Failed, match="invalid credentials with SASL mechanism OAUTHBEARER") as failed:
        exchange().send(message)
    assert failed.value.challenge == b""


def test_a_valid_token_logs_in_until_it_expires():
    for header in ("n,,", "n,a=alice,"):
        message = first_message(PROVIDER.token(NOW_S), header)
        assert logged_in(message) == LoggedIn("alice", b"", (NOW_S + 300) * 1000)


def test_a_token_is_for_its_own_user():
    with pytest.raises(Failed, match="authorization id that is different from the token's principal name") as failed:
        exchange().send(first_message(PROVIDER.token(NOW_S), "n,a=admin,"))
    assert failed.value.challenge == b""


def test_an_invalid_token_is_challenged_before_it_is_refused():
    token = PROVIDER.token(NOW_S, exp=NOW_S - 100, iat=NOW_S - 200)
    with pytest.raises(Failed) as failed:
        exchange().send(first_message(token))
    assert failed.value.challenge == b'{"status":"invalid_token"}'
    assert str(failed.value) == '{"status":"invalid_token"}'
    assert failed.value.reason == "the token has expired"


def test_a_client_replies_to_a_challenge_and_to_nothing_else():
    client = oauthbearer.client("a.b.c")
    assert next(client) == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert client.send(b'{"status":"invalid_token"}') == b"\x01"
    client = oauthbearer.client("a.b.c")
    next(client)
    with pytest.raises(StopIteration):
        client.send(b"")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"oauthbearer.sasl.oauthbearer.expected.issuer": ""}, "expected.issuer: SASL/OAUTHBEARER needs this"),
        ({"oauthbearer.sasl.jaas.config": None}, "oauthbearer.sasl.jaas.config is missing"),
        (
            {"oauthbearer.sasl.jaas.config": "com.sun.security.auth.module.JndiLoginModule required;"},
            "JndiLoginModule is not supported; SASL/OAUTHBEARER needs OAuthBearerLoginModule",
        ),
        (
            {"oauthbearer.sasl.server.callback.handler.class": "org.evil.Handler"},
            "oauthbearer.sasl.server.callback.handler.class: org.evil.Handler is not supported",
        ),
    ],
)
def test_options_that_cannot_work_are_named(changes, sentence):
    sasl.check(BrokerConfig(OPTIONS))
    given = {name: text for name, text in {**OPTIONS, **changes}.items() if text is not None}
    with pytest.raises(InvalidOption, match=sentence):
        sasl.check(BrokerConfig(given))


def test_kafkas_names_of_the_handler_are_accepted():
    for package in ("", "secured."):
        name = f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerValidatorCallbackHandler"
        sasl.check(BrokerConfig({**OPTIONS, "oauthbearer.sasl.server.callback.handler.class": name}))
