"""Tidelog's own clients log in with an access token: of a file, and of a provider's token endpoint."""

import base64
import json
import time

import pytest

from tests.security.https_server import serving
from tests.security.tokens import RSA_KEYS, Provider
from tests.shell.test_oauth import options, token
from tests.shell.test_tls import port_of
from tests.waiting import own_clock
from tidelog.client import properties
from tidelog.client.options import AdminOptions
from tidelog.errors import ApiError, InvalidOption
from tidelog.shell import access_tokens
from tidelog.shell.access_tokens import AccessTokens
from tidelog.shell.client_security import security_of
from tidelog.shell.transport import Admin
from tidelog.testing import Cluster
from tidelog.wire.messages.topics.metadata import MetadataRequest

SECRET = "s3cret of us"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {0};"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("provider")) as served:
        yield served


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(Provider().jwks)
    with Cluster(brokers=1, options=options(f"file://{keys}")) as cluster:
        yield port_of(cluster.brokers[0], "SASL_PLAINTEXT")


def given(url, login="", **more):
    text = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": MODULE.format(login),
        "sasl.oauthbearer.token.endpoint.url": url,
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return properties.options(AdminOptions, text)


def trusted(server):
    return f'ssl.truststore.type="PEM" ssl.truststore.location="{server.authority}"'


def with_credentials(server, path, login="", **more):
    names = {"client.id": "us", "client.secret": SECRET, **more}
    more = {
        f"sasl.oauthbearer.{'' if name == 'scope' else 'client.credentials.'}{name}": text
        for name, text in names.items()
    }
    return given(f"{server.base}{path}", f"{trusted(server)} {login}", **more)


def tokens(found):
    security = security_of(found)
    assert SECRET not in repr(security)
    assert SECRET not in repr(found)
    return security.tokens


def answer(text, **more):
    return 200, json.dumps({"access_token": text, "token_type": "Bearer", **more}).encode()


def asks(port, found):
    values = {name: getattr(found, name) for name in type(found).__dataclass_fields__}
    with Admin(f"127.0.0.1:{port}", **values) as admin:
        return admin.ask(MetadataRequest()).brokers


def test_a_client_logs_in_with_a_token_of_a_file(port, tmp_path):
    file = tmp_path / "a token"
    file.write_text(f"\n{token()}\n")
    url = f"file://{tmp_path}/a%20token"
    assert asks(port, given(url))
    file.write_text(token(Provider(RSA_KEYS[1])))
    with pytest.raises(ApiError, match=r'refuses the access token: \{"status":"invalid_token"\}'):
        asks(port, given(url))
    file.unlink()
    with pytest.raises(ApiError, match=r"token.endpoint.url: no token from file:.*there is no such file"):
        asks(port, given(url))


def test_a_client_gets_a_token_by_its_credentials(port, server):
    server.answers["/token"] = answer(token())
    server.requests.clear()
    assert asks(port, with_credentials(server, "/token", scope="write read"))
    ((method, _, headers, body),) = server.requests
    assert (method, body) == ("POST", b"grant_type=client_credentials&scope=write+read")
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() == f"us:{SECRET}"
    server.answers["/jaas"] = answer(token())
    login = f'{trusted(server)} clientId="me" clientSecret="{SECRET}" scope="own"'
    assert tokens(given(f"{server.base}/jaas", login, sasl_oauthbearer_header_urlencode="true")).token()
    *_, (_, _, headers, body) = server.requests
    assert body == b"grant_type=client_credentials&scope=own"
    assert base64.b64decode(headers["Authorization"].removeprefix("Basic ")) == b"me:s3cret+of+us"


def test_a_token_is_used_for_most_of_its_time(server, monkeypatch):
    now = [time.time()]
    monkeypatch.setattr(access_tokens, "time", own_clock(time=lambda: now[0]))
    server.answers["/token"] = answer(token(exp=int(now[0]) + 1000))
    server.requests.clear()
    found = tokens(with_credentials(server, "/token"))
    first = found.token()
    now[0] += 799
    server.answers["/token"] = answer("opaque")
    assert found.token() == first
    now[0] += 2
    assert [found.token(), found.token()] == ["opaque", "opaque"]  # it does not say when it expires
    assert len(server.requests) == 3


def test_a_provider_that_is_unavailable_is_asked_again(server, monkeypatch):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            server.answers["/later"] = answer("late")

    monkeypatch.setattr(access_tokens, "time", own_clock(sleep=sleep))
    server.answers["/later"] = (503, b"")
    assert tokens(with_credentials(server, "/later")).token() == "late"
    assert waited == [0.1, 0.2, 0.4]
    waited.clear()
    server.answers["/down"] = (500, SECRET.encode())
    with pytest.raises(ApiError, match="it answers with status 500") as refused:
        tokens(with_credentials(server, "/down")).token()
    assert SECRET not in str(refused.value)
    assert sum(waited) <= 10
    waited.clear()
    for path, content, told in (
        ("/refused", (401, b'{"error":"invalid_client"}'), "it answers with status 401"),
        ("/empty", (200, b"{}"), "its answer has no access_token"),
        ("/other", (200, b"[]"), "its answer has no access_token"),
        ("/none", answer(""), "its answer has no access_token"),
        ("/line", answer("a\x01b"), "its answer has no access_token"),
    ):
        server.answers[path] = content
        with pytest.raises(ApiError, match=told):
            tokens(with_credentials(server, path)).token()
    assert waited == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "token.endpoint.url is needed for sasl.mechanism OAUTHBEARER"),
        ({"sasl.oauthbearer.token.endpoint.url": "http://provider.example/"}, "must be a file:/// or https:// URL"),
        ({}, "client.credentials.client.id is needed"),
        ({"sasl.oauthbearer.client.credentials.client.id": "us"}, "client.credentials.client.secret is needed"),
    ],
)
def test_what_is_missing_is_named(changes, told):
    with pytest.raises(InvalidOption, match=told):
        security_of(given("https://provider.example/token", **changes))


def test_a_token_is_not_printed(tmp_path):
    (tmp_path / "token").write_text("a.b.c")
    found = AccessTokens(given(f"file://{tmp_path}/token"), {})
    assert found.token() == "a.b.c"
    assert "a.b.c" not in repr(found)
