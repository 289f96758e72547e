"""DIGEST-MD5 as a client: the RFC's own example, and a server that cannot prove anything."""

import pytest

from tidelog.errors import ApiError
from tidelog.security import digest_md5

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


@pytest.fixture
def exchange():
    made = digest_md5.client("chris", "secret", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")
    assert next(made) == b""
    return made


def test_the_example_of_rfc_2831(exchange):
    answer = exchange.send(CHALLENGE).decode()
    assert answer == (
        'charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,'
        'cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",'
        "response=d388dad90d4bbd760a152321f2143af7,qop=auth"
    )
    with pytest.raises(StopIteration):
        exchange.send(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


@pytest.mark.parametrize("last", [b"", b"rspauth=d388dad90d4bbd760a152321f2143af7", b"rspauth=\xff"])
def test_a_server_must_prove_that_it_knows_the_password(exchange, last):
    exchange.send(CHALLENGE)
    with pytest.raises(ApiError, match="does not prove"):
        exchange.send(last)


def test_what_is_no_challenge_is_refused(exchange):
    with pytest.raises(ApiError, match="sent no challenge"):
        exchange.send(b"hello")
