"""SCRAM from both sides: the RFC's example, each way to lie, and what is kept of a password."""

import re
from base64 import b64decode, b64encode

import pytest

from tidelog.errors import ApiError
from tidelog.security import scram
from tidelog.security.scram import MECHANISMS, Account

SHA_256, SHA_512 = MECHANISMS.values()
NONCE, SERVERS = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT, PROOF = "W22ZaJ0SNY7soEsUEjb6gQ==", "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def keep(mechanism, password, salt=b"salt", iterations=4096):
    return scram.credential(mechanism, scram.salted(mechanism, password, salt, iterations), salt, iterations)


def users(**passwords):
    kept = {user: Account(user, keep(SHA_512, password)) for user, password in passwords.items()}
    return lambda name, by_token: None if by_token else kept.get(name)


def tokens(**secrets):
    kept = {name: Account("owner", keep(SHA_512, secret), 1000, by_token=True) for name, secret in secrets.items()}
    return lambda name, by_token: kept.get(name) if by_token else None


def begun(mechanism, lookup, nonce="theirs"):
    side = scram.server(mechanism, lookup, nonce, b"secret")
    next(side)
    return side


def log_in(client, server):
    """The user whom the server lets in."""
    message = next(client)
    while True:
        try:
            answer = server.send(message)
        except StopIteration as end:
            account, answer = end.value
            with pytest.raises(StopIteration):
                client.send(answer)
            return account.user
        message = client.send(answer)


def test_the_example_of_rfc_7677_from_both_sides():
    kept = keep(SHA_256, "pencil", b64decode(SALT))
    account = Account("user", kept)
    server = begun(SHA_256, lambda name, _by_token: account if name == "user" else None, SERVERS)
    client = scram.client(SHA_256, "user", "pencil", NONCE)
    first = next(client)
    assert first == f"n,,n=user,r={NONCE}".encode()
    answer = server.send(first)
    assert answer == f"r={NONCE}{SERVERS},s={SALT},i=4096".encode()
    final = client.send(answer)
    assert final == f"c=biws,r={NONCE}{SERVERS},p={PROOF}".encode()
    with pytest.raises(StopIteration) as end:
        server.send(final)
    assert end.value.value == (account, f"v={SIGNATURE}".encode())


@pytest.mark.parametrize("user", ["alice", "a,b=c", "näh", "=2C"])
def test_who_knows_the_password_is_let_in(user):
    assert log_in(scram.client(SHA_512, user, "pass,word=", "n"), begun(SHA_512, users(**{user: "pass,word="}))) == user


def test_a_token_logs_its_owner_in_and_nobody_under_its_name_without_saying_so():
    known = tokens(id1="hmac")
    assert log_in(scram.client(SHA_512, "id1", "hmac", "n", by_token=True), begun(SHA_512, known)) == "owner"
    for lookup, by_token in ((known, False), (users(id1="hmac"), True)):
        client, server = scram.client(SHA_512, "id1", "hmac", "n", by_token=by_token), begun(SHA_512, lookup)
        final = client.send(server.send(next(client)))
        with pytest.raises(scram.Refused):
            server.send(final)


@pytest.mark.parametrize(
    ("extension", "is_token"), [("tokenauth=TRUE", True), ("tokenauth=false", False), ("x=y", False)]
)
def test_an_extension_says_whether_the_name_is_that_of_a_token(extension, is_token):
    """As Java's Boolean.parseBoolean; unknown extensions are ignored."""
    asked = []
    begun(SHA_512, lambda *named: asked.append(named)).send(f"n,,n=id1,r=x,{extension}".encode())
    assert asked == [("id1", is_token)]


@pytest.mark.parametrize(("user", "password"), [("alice", "wrong"), ("nobody", "right"), ("", "right")])
def test_who_does_not_is_refused_at_the_last_step(user, password):
    client, server = scram.client(SHA_512, user or "x", password, "n"), begun(SHA_512, users(alice="right"))
    final = client.send(server.send(next(client)))
    with pytest.raises(scram.Refused):
        server.send(final)


def test_a_user_who_does_not_exist_has_the_same_salt_each_time():
    answers = {begun(SHA_512, users()).send(b"n,,n=nobody,r=x") for _ in range(2)}
    assert len(answers) == 1
    assert begun(SHA_512, users()).send(b"n,,n=other,r=x") not in answers


def test_a_user_who_does_not_exist_has_a_salt_like_the_others():
    """Kafka's tool makes salts of 130 bits in base 36, and 4096 iterations."""
    for number in range(20):
        answer = begun(SHA_512, users()).send(f"n,,n=nobody{number},r=x".encode()).decode()
        fields = dict(part.split("=", 1) for part in answer.split(","))
        assert re.fullmatch("[0-9a-z]{20,26}", b64decode(fields["s"]).decode())
        assert fields["i"] == "4096"


def test_a_message_beyond_reason_is_not_looked_at():
    with pytest.raises(scram.Refused):
        begun(SHA_512, users(alice="right")).send(b"n,,n=" + b"x" * 500_000 + b",r=x")
    server = begun(SHA_512, users(alice="right"))
    server.send(b"n,,n=alice,r=x")
    with pytest.raises(scram.Refused):
        server.send(b"c=biws,r=xtheirs" + b",p=A" * 100_000)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=x",
        b"p=tls-unique,,n=alice,r=x",
        b"n,a=bob,n=alice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"\xff",
    ],
)
def test_a_first_message_that_is_not_scrams_is_refused(first):
    with pytest.raises(scram.Refused):
        begun(SHA_512, users(alice="right")).send(first)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"r=n", b"r=m"),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=bixhPWFsaWNlLA=="),
        (b",p=", b",p=AAAA"),
        (b",p=", b",q="),
        (b"c=biws,", b""),
    ],
)
def test_a_last_message_that_was_changed_is_refused(old, new):
    """The nonce (CVE-2024-56128), the channel binding, the proof, the form."""
    client, server = scram.client(SHA_512, "alice", "right", "n"), begun(SHA_512, users(alice="right"))
    final = client.send(server.send(next(client)))
    assert old in final
    with pytest.raises(scram.Refused):
        server.send(final.replace(old, new))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"r=other,s=AAAA,i=4096",
        b"r=nx,s=AAAA,i=0",
        b"r=nx,s=AAAA,i=999999999",
        b"r=nx,s=!,i=4096",
        b"e=no",
        b"\xff",
    ],
)
def test_a_client_does_not_work_for_a_server_that_does_not_speak_scram(answer):
    client = scram.client(SHA_256, "alice", "right", "n")
    next(client)
    with pytest.raises(ApiError, match="does not prove"):
        client.send(answer)


@pytest.mark.parametrize("last", [b"", b"e=other-error", b"v=" + b64encode(bytes(32)), b"v=!"])
def test_a_server_that_does_not_know_the_password_is_left(last):
    client = scram.client(SHA_256, "user", "pencil", NONCE)
    next(client)
    client.send(f"r={NONCE}{SERVERS},s={SALT},i=4096".encode())
    with pytest.raises(ApiError, match="does not prove that it knows the password"):
        client.send(last)


def test_a_credential_is_kept_in_kafkas_form():
    kept = keep(SHA_256, "secret")
    text = scram.format_credential(kept)
    assert text.startswith("salt=c2FsdA==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert scram.parse_credential(text) == kept
    assert repr(kept) == "Credential(4096 iterations)"
    for broken in ("", "salt=!,stored_key=,server_key=,iterations=1", text.replace("4096", "many")):
        assert scram.parse_credential(broken) is None
