"""When the keys that verify access tokens are fetched again, in virtual time."""

import json

import pytest

from tests.security.tokens import RSA_KEYS, Provider
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Event, FetchKeys
from tidelog.model import Time
from tidelog.node.security.token_keys import MISSED_EVERY_MS, TokenKeys

URL = "https://provider.example/keys"
CONFIG = BrokerConfig(
    {
        "listeners": "PLAINTEXT://:9092,SASL_PLAINTEXT://:9093",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": URL,
        "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "1000",
    }
)
OLD, NEW = Provider(), Provider(RSA_KEYS[1], "two")


class Clocked:
    def __init__(self):
        self.effects = []
        self.now = Time(0, 0)
        self.keys = TokenKeys(CONFIG, {URL: OLD.jwks}, self.effects, lambda: self.now)
        self.keys.start(self.now)

    def at(self, moment):
        """What the keys want of the world at this moment."""
        self.now = Time(moment, moment)
        if self.keys.alarm.at <= moment:
            self.keys.wake(self.now)
        return self.taken()

    def taken(self):
        found = list(self.effects)
        self.effects.clear()
        return found

    def find(self, key_id):
        return self.keys.find(URL, key_id, "RS256")

    def fetched(self, text="", problem=""):
        self.keys.fetched(URL, text, problem, self.now)


def test_keys_are_fetched_at_the_interval():
    clocked = Clocked()
    assert clocked.find("one") is not None
    assert clocked.at(59_999) == []
    assert clocked.at(60_000) == [FetchKeys(URL)]
    assert clocked.at(90_000) == []  # one at a time
    clocked.fetched(NEW.jwks)
    assert clocked.find("two") is not None
    assert clocked.keys._providers[URL].keys.find("one", "RS256") is None
    assert clocked.keys.alarm.at == 150_000


def test_an_unknown_key_is_looked_for_at_once_but_seldom():
    clocked = Clocked()
    clocked.now = Time(1000, 1000)
    assert clocked.find("two") is None
    assert clocked.at(1000) == [FetchKeys(URL)]
    clocked.fetched(OLD.jwks)
    for moment in range(1001, 1000 + MISSED_EVERY_MS, 500):
        clocked.now = Time(moment, moment)
        assert clocked.find(f"other-{moment}") is None
        assert clocked.at(moment) == []
    clocked.now = Time(1000 + MISSED_EVERY_MS, 0)
    assert clocked.find("two") is None
    assert clocked.at(1000 + MISSED_EVERY_MS) == [FetchKeys(URL)]
    clocked.fetched(NEW.jwks)
    assert clocked.find("two") is not None


def test_a_token_without_key_id_causes_no_fetch():
    clocked = Clocked()
    clocked.fetched(json.dumps({"keys": [OLD.public, NEW.public]}))
    assert clocked.find(None) is None
    assert clocked.at(1) == []


@pytest.mark.parametrize(("text", "problem"), [("", "it answers with status 503"), ("[]", ""), ('{"keys": []}', "")])
def test_keys_stay_where_no_others_are_fetched(text, problem):
    clocked = Clocked()
    assert clocked.at(60_000) == [FetchKeys(URL)]
    due = 60_000
    for backoff_ms in (100, 200, 400, 800, 1000, 1000):
        clocked.fetched(text, problem)
        (event,) = clocked.taken()
        assert isinstance(event, Event)
        assert event.kind == "tokens.keys_not_fetched"
        assert event.fields["url"] == URL
        assert clocked.find("one") is not None
        assert clocked.at(due + backoff_ms - 1) == []
        due += backoff_ms
        assert clocked.at(due) == [FetchKeys(URL)]
    clocked.fetched(OLD.jwks)
    assert clocked.keys.alarm.at == due + 60_000
    assert clocked.keys.alarm.at == clocked.keys.next_deadline
