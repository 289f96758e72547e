"""Listeners with OAUTHBEARER: real clients, forged tokens, keys that change, and what is logged."""

import time

import pytest

from tests.security.https_server import serving
from tests.security.tokens import AUDIENCE, ISSUER, RSA_KEYS, Provider, first_message
from tests.shell.test_sasl import Wire
from tests.shell.test_tls import port_of
from tests.waiting import wait_for
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.testing import Cluster
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {0};"
OWN = "listener.name.sasl_plaintext.oauthbearer."
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OF_BROKERS = "listener.name.replication.oauthbearer."
TOKEN_URL = f"{OF_BROKERS}sasl.oauthbearer.token.endpoint.url"
BETWEEN = {
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    f"{OF_BROKERS}sasl.jaas.config": LOGIN.format(""),
    f"{OF_BROKERS}sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{OF_BROKERS}sasl.oauthbearer.expected.audience": "brokers",
}
"""Brokers log in to each other with tokens for an audience of their own."""
PROVIDER, NEXT = Provider(), Provider(RSA_KEYS[1], "two")
HOUR_S = 3600


def options(url, login="", **more):
    given = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OWN}sasl.jaas.config": LOGIN.format(login),
        f"{OWN}sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        f"{OWN}sasl.oauthbearer.jwks.endpoint.url": url,
        f"{OWN}sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "connection.failed.authentication.delay.ms": "1",
        # So wide that no pause of this machine matters.
        "sasl.oauthbearer.clock.skew.seconds": str(HOUR_S),
    }
    return {**given, **{name.replace("_", "."): text for name, text in more.items()}}


def token(provider=PROVIDER, **claims):
    now_s = int(time.time())
    return provider.token(now_s, **{"exp": now_s + HOUR_S, **claims})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(PROVIDER.jwks)
    return file


@pytest.fixture(scope="module")
def broker(keys):
    with Cluster(brokers=1, options=options(f"file://{keys}")) as cluster:
        yield cluster.brokers[0]


@pytest.fixture
def port(broker):
    return port_of(broker, "SASL_PLAINTEXT")


def authenticated(wire, message, *, handshake=True):
    if handshake:
        assert wire.ask(17, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER")).error_code == 0
    return wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=message))


def test_a_bad_token_is_challenged_then_refused_and_never_logged(broker, port):
    forged = Provider(RSA_KEYS[1])
    refused = [token(forged), token(aud="elsewhere"), token(iss="evil"), "a.b.c", token(without=["exp"])]
    for each in refused:
        with Wire(port) as wire:
            answer = authenticated(wire, first_message(each))
            assert (answer.error_code, bytes(answer.auth_bytes)) == (0, b'{"status":"invalid_token"}')
            assert answer.session_lifetime_ms == 0
            last = authenticated(wire, b"\x01", handshake=False)
            assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert last.error_message == '{"status":"invalid_token"}'
            assert wire.is_closed()
    with Wire(port) as wire:  # nothing else is heard after the challenge, a valid token neither
        authenticated(wire, first_message("a.b.c"))
        assert authenticated(wire, first_message(token()), handshake=False).error_code == 58
        assert wire.is_closed()
    with Wire(port) as wire:
        authenticated(wire, first_message("a.b.c"))
        with pytest.raises(ConnectionResetError):
            wire.ask(3, 9, MetadataRequest())
    for message in (b"", b"n,,\x01auth=Basic dTpw\x01\x01", first_message(token(), "n,a=admin,")):
        with Wire(port) as wire:
            assert authenticated(wire, message).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert wire.is_closed()
    lines = repr(list(broker.logger.lines))
    assert "the signature of the token is wrong" in lines
    for part in [part for each in refused for part in each.split(".") if len(part) > 1]:
        assert part not in lines


def test_bare_tokens_are_challenged_too(port):
    with Wire(port) as wire:
        wire.ask(17, 0, SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        for message, answer in ((first_message("a.b.c"), b'{"status":"invalid_token"}'), (b"\x01", None)):
            wire.sock.sendall(len(message).to_bytes(4) + message)
            if answer is not None:
                assert wire.frame() == answer
        assert wire.is_closed()


def test_a_session_ends_with_its_token(port):
    with Wire(port) as wire:
        answer = authenticated(wire, first_message(token()))
        assert 0 < answer.session_lifetime_ms <= HOUR_S * 1000
        assert wire.ask(3, 9, MetadataRequest()).brokers
        other = authenticated(wire, first_message(token(sub="bob")))
        assert (other.error_code, other.error_message) == (
            58,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
    with Wire(port) as wire:  # a token that has expired already, which the skew still allows
        past_s = int(time.time()) - 10
        answer = authenticated(wire, first_message(token(iat=past_s - 60, exp=past_s)))
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 0)
        assert authenticated(wire, first_message(token())).session_lifetime_ms > 0
        assert wire.ask(3, 9, MetadataRequest()).brokers
        assert authenticated(wire, first_message(token(iat=past_s - 60, exp=past_s))).error_code == 0
        with pytest.raises(ConnectionResetError):
            wire.ask(3, 9, MetadataRequest())


def logs_in(port, provider):
    with Wire(port) as wire:
        return authenticated(wire, first_message(token(provider))).session_lifetime_ms > 0


def test_a_new_key_is_read_when_a_token_names_it(broker, port, keys):
    assert not logs_in(
        port, Provider(RSA_KEYS[1], "three")
    )  # the file has not changed: read, and not again for a while
    for provider in broker._hosted.node.broker.token_keys._providers.values():
        provider.missed_at = None
    replaced(keys, NEXT.jwks)
    try:
        wait_for(lambda: logs_in(port, NEXT), "the new key", 30)
        assert not logs_in(port, PROVIDER)
    finally:
        replaced(keys, PROVIDER.jwks)


def replaced(file, text):
    """At once: a half-written file has no keys, and is read again a moment later only."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_keys_come_from_an_https_server_that_is_verified(tmp_path):
    with serving(tmp_path) as server:
        server.answers["/keys?of=us"] = (200, PROVIDER.jwks.encode())
        server.answers["/moved"] = (302, b"", ("Location", f"{server.base}/keys?of=us"))
        server.answers["/none"] = (200, b'{"keys": []}')
        trusted = f'ssl.truststore.type="PEM" ssl.truststore.location="{server.authority}"'
        with Cluster(brokers=1, options=options(f"{server.base}/keys?of=us", trusted)) as cluster:
            assert logs_in(port_of(cluster.brokers[0], "SASL_PLAINTEXT"), PROVIDER)
        for path, login, reason in (
            ("/keys?of=us", "", "CERTIFICATE_VERIFY_FAILED"),
            ("/moved", trusted, "it answers with status 302"),
            ("/missing", trusted, "it answers with status 404"),
            ("/none", trusted, "it has no public key for signatures"),
        ):
            refused = options(f"{server.base}{path}", login)
            with pytest.raises(InvalidOption, match=rf"jwks.endpoint.url: cannot read keys from https://.*{reason}"):
                Cluster(brokers=1, options=refused).__enter__()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({f"{OWN}sasl.oauthbearer.jwks.endpoint.url": "file:///no/such/file"}, "cannot read keys from file:///no/such"),
        ({f"{OWN}sasl.oauthbearer.expected.audience": ""}, "expected.audience: SASL/OAUTHBEARER needs this"),
        ({"sasl.oauthbearer.expected.issuer": ""}, "expected.issuer: SASL/OAUTHBEARER needs this"),
        (BETWEEN, "token.endpoint.url is needed for sasl.mechanism OAUTHBEARER"),
        ({**BETWEEN, TOKEN_URL: "file:///no/such/token"}, "no token from file:///no/such/token: there is no such file"),
        ({**BETWEEN, TOKEN_URL: "https://provider.example/"}, "client.credentials.client.id is needed"),
        (
            {**BETWEEN, "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.JwtBearerJwtRetriever"},
            "jwt.retriever.class must be one of .*ClientCredentialsJwtRetriever",
        ),
        (
            {**BETWEEN, f"{OF_BROKERS}sasl.login.callback.handler.class": "com.example.Evil"},
            "sasl.login.callback.handler.class: com.example.Evil is not supported",
        ),
    ],
)
def test_a_broker_that_could_not_verify_tokens_does_not_start(keys, changes, sentence):
    url = f"file://{keys}"
    refused = {**options(url), "sasl.oauthbearer.jwks.endpoint.url": url, **changes}
    with pytest.raises(InvalidOption, match=sentence):
        Cluster(brokers=1, options=refused).__enter__()


def test_a_broker_logs_in_to_others_as_the_subject_of_its_token(keys, tmp_path):
    """With an authorizer it refuses to start if others would not serve it."""
    file = tmp_path / "token"
    url = {"sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}", TOKEN_URL: f"file://{file}"}
    authorizer = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS;User:of-brokers"}
    wanted = {**options(f"file://{keys}"), **BETWEEN, **url, **authorizer}
    for claims, told in (
        ({"sub": "someone"}, r"brokers connect to each other as User:someone \(SASL_PLAINTEXT\)"),
        ({"without": ["sub"]}, "the token has no claim sub that names a user"),
    ):
        file.write_text(token(aud="brokers", **claims))
        with pytest.raises(InvalidOption, match=told):
            Cluster(brokers=1, options=wanted).__enter__()
    file.write_text(token(aud="brokers", sub="of-brokers"))
    with Cluster(brokers=2, options=wanted) as cluster:
        cluster.create_topic("t", replicas=2, min_insync_replicas=2)
        with Wire(cluster.brokers[0].brokers_port) as wire:  # a client's token is for another audience
            assert bytes(authenticated(wire, first_message(token())).auth_bytes) == b'{"status":"invalid_token"}'
        assert not [kind for each in cluster.brokers for _, kind, _ in each.logger.lines if kind == "peer.login_failed"]
        lines = repr([list(each.logger.lines) for each in cluster.brokers])
        assert file.read_text().split(".")[2] not in lines
