"""An unknown user costs the same work as a wrong password: calls are counted, because a test cannot trust a clock."""

import hashlib
import hmac
import tracemalloc
from collections import Counter
from types import SimpleNamespace

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.security import sasl, scram
from tidelog.security.sasl import Failed, SaslListener

CONFIG = BrokerConfig(
    {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": 'a.PlainLoginModule required user_alice="wonder";',
    }
)


@pytest.fixture
def calls(monkeypatch):
    """How often each function of `hashlib` and `hmac` is called with how many bytes."""
    counted = Counter()

    def counting(module):
        def wrapped(name):
            def call(*given, **more):
                counted[name, *(len(each) for each in given if isinstance(each, bytes))] += 1
                return getattr(module, name)(*given, **more)

            return call

        return SimpleNamespace(**{name: wrapped(name) for name in dir(module) if callable(getattr(module, name))})

    monkeypatch.setattr(scram, "hmac", counting(hmac))
    monkeypatch.setattr(scram, "hashlib", counting(hashlib))
    monkeypatch.setattr(sasl, "hmac", counting(hmac))
    return counted


def test_a_million_empty_names_are_refused_before_they_are_made():
    """It took 2 s of the event loop for a frame of 16 MB, which a user who authenticates again may send."""
    exchange, message = SaslListener(CONFIG, lambda *_: None, bytes).exchange("PLAIN"), bytes(1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Failed, match="got 1000001"):
            exchange.send(message)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("mechanism", scram.MECHANISMS)
def test_an_unknown_scram_user_is_as_much_work_as_a_wrong_password(calls, mechanism):
    kind = scram.MECHANISMS[mechanism]
    known = scram.credential(kind, scram.salted(kind, "builder", b"s" * 26, 4096), b"s" * 26, 4096)
    listener = SaslListener(
        CONFIG,
        lambda _, user, by_token: scram.Account(user, known) if user == "bob" else None,
        bytes,
    )
    work = {}
    for user in ("bob", "tom"):
        calls.clear()
        exchange = listener.exchange(mechanism)
        nonce = exchange.send(f"n,,n={user},r=abc".encode()).split(b",")[0]
        proof = b"A" * (86 if kind.digest == "sha512" else 43)
        with pytest.raises(Failed):
            exchange.send(b"c=biws," + nonce + b",p=" + proof + b"=" * (-len(proof) % 4))
        work[user] = Counter(calls)
    assert work["bob"] == work["tom"]
    assert sum(work["bob"].values()) >= 3


def test_an_unknown_plain_user_is_as_much_work_as_a_wrong_password(calls):
    listener = SaslListener(CONFIG, lambda *_: None, bytes)
    counts = []
    for user in ("alice", "nobody"):
        calls.clear()
        with pytest.raises(Failed, match="Invalid username or password"):
            listener.exchange("PLAIN").send(f"\0{user}\0wrong".encode())
        counts.append(sum(calls.values()))
    assert counts == [1, 1]
