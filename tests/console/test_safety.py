"""The console's rules for who may ask, without a cluster."""

import asyncio
import importlib.util

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.console.asking import Asking
from tidelog.cli.main import run
from tidelog.console.routes import ROUTES
from tidelog.console.safety import HEADERS, MAX_BODY_BYTES, Gate, Rules, new_token

RULES = Rules("the-token", frozenset({"localhost", "console.example"}))
PAGE = {"host": "127.0.0.1:8080", "authorization": "Bearer the-token"}
POSTED = {**PAGE, "content-type": "application/json"}


def refused(headers, method="GET", path="/api/topics"):
    found = RULES.refusal(method, path, headers)
    return None if found is None else int(found.status)


def test_the_page_itself_is_served():
    assert refused(PAGE) is None
    assert refused({**PAGE, "origin": "http://127.0.0.1:8080", "sec-fetch-site": "same-origin"}) is None
    assert refused({**PAGE, "host": "[::1]:9000", "origin": "http://[::1]:9000"}) is None
    assert refused({**POSTED, "origin": "http://127.0.0.1:8080"}, "POST") is None
    assert refused({"host": "localhost"}, path="/") is None, "files of the page need no token"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_another_name_is_refused_even_with_the_token(host):
    """A page of evil.example whose name leads to 127.0.0.1 (DNS rebinding) sends its own name."""
    assert refused({**PAGE, "host": host}) == 421
    assert refused({"host": host}, path="/") == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "http://localhost:8080"])
def test_another_page_is_refused_even_with_the_token(origin):
    assert refused({**PAGE, "origin": origin}) == 403
    assert refused({**POSTED, "origin": origin}, "POST") == 403


def test_a_request_that_another_site_began_is_refused():
    assert refused({**PAGE, "sec-fetch-site": "cross-site"}) == 403
    assert refused({**PAGE, "sec-fetch-site": "same-site"}) == 403
    assert refused({**PAGE, "sec-fetch-site": "none"}) is None


@pytest.mark.parametrize(
    "given",
    [None, "", "Bearer ", "Bearer wrong", "the-token", "bearer the-token", "Basic the-token", "Bearer the-tokén"],
)
def test_nothing_is_told_without_the_token(given):
    headers = dict(PAGE)
    del headers["authorization"]
    assert refused(headers if given is None else {**headers, "authorization": given}) == 401
    assert refused({**headers, "cookie": "token=the-token"}) == 401, "a cookie is no token: other pages send it too"


def test_a_form_cannot_change_anything():
    """A form of another page may post these types without asking first."""
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""):
        assert refused({**PAGE, "content-type": kind}, "POST") == 415
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert refused(PAGE, method) == 405
    assert refused(PAGE, "POST", "/") == 405


def test_tokens_are_long_and_new_each_time():
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 43


def through(headers, method="GET", path="/", body=b""):
    async def app(_scope, receive, send):
        message = await receive()
        reached = message["type"].encode() + b" " + str(len(message.get("body", b""))).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"no-cache")]})
        await send({"type": "http.response.body", "body": reached})

    return asyncio.run(Asking(Gate(app, RULES)).ask(method, path, headers=headers, body=body))


def test_every_answer_has_the_headers():
    for headers in ({}, {"host": "evil.example"}):
        answer = through(headers)
        for name in HEADERS:
            assert name in answer.headers
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
    assert through({}).headers["cache-control"] == "no-cache", "the application's own headers count"


def test_a_large_body_is_not_read():
    too_long = {"content-type": "application/json", "content-length": str(MAX_BODY_BYTES + 1)}
    assert through(too_long, "POST", "/api/topics").status == 413
    assert through({**too_long, "content-length": "-1"}, "POST", "/api/topics").status == 413
    hidden = {"content-type": "application/json"}
    assert through(hidden, "POST", "/api/topics", b"x" * (MAX_BODY_BYTES + 1)).body == b"http.disconnect 0"
    assert through(hidden, "POST", "/api/topics", b"x" * 10).body == b"http.request 10"


def test_whatever_sounds_like_a_change_is_one():
    words = (
        "alter",
        "create",
        "delete",
        "reset",
        "produce",
        "send",
        "abort",
        "start",
        "cancel",
        "add",
        "remove",
        "set",
        "elect",
    )
    for path, route in ROUTES.items():
        last = path.rpartition("/")[2]
        assert route.changes == (last.split("-")[0] in words or last == "partitions"), path


def test_without_the_extra_one_sentence_names_it(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    for command in (["console"], ["up", "--console", "--data", "never-made"]):
        assert run(command) == 1
        expected = "The console needs starlette and uvicorn: pip install 'tidelog[console]'."
        assert capsys.readouterr().err.strip() == expected


def test_files_that_are_no_certificate_or_need_a_password_are_refused_in_one_sentence(tmp_path, capsys):
    issued = trustme.CA().issue_cert("127.0.0.1")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(certificate)
    secret = load_pem_private_key(issued.private_key_pem.bytes(), None)
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    for given in (("--certificate", str(certificate)), ("--certificate", str(certificate), "--key", str(key))):
        assert run(["console", "--port", "0", *given]) == 1
        text = capsys.readouterr().err
        assert f"Cannot serve HTTPS with {certificate}" in text
        assert "expected PEM with a certificate and its private key, without a password" in text
