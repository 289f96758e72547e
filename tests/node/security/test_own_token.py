"""When a broker fetches the next access token with which it logs in to others, in virtual time."""

from itertools import pairwise

import pytest

from tests.security.tokens import Provider
from tidelog.effects import Event, FetchToken
from tidelog.model import Time
from tidelog.node.security.own_token import LEAST_MS, OwnToken

PROVIDER = Provider()
WALL_MS = 1_700_000_000_000


def token(now_ms, lives_s):
    now_s = (WALL_MS + now_ms) // 1000
    return PROVIDER.token(now_s, exp=now_s + lives_s)


class Clocked:
    def __init__(self, text):
        self.effects = []
        self.own = OwnToken(text, self.effects)
        self.own.start(Time(0, WALL_MS))

    def at(self, moment):
        """What it wants of the world at this moment (ms)."""
        self.now = Time(moment, WALL_MS + moment)
        if self.own.alarm.at <= moment:
            self.own.wake(self.now)
        found = list(self.effects)
        self.effects.clear()
        return found

    def fetched(self, text="", problem=""):
        self.own.fetched(text, problem, self.now)


def test_the_next_token_is_fetched_after_most_of_the_lifetime():
    clocked = Clocked(token(0, 300))
    assert clocked.at(239_999) == []
    assert clocked.at(240_000) == [FetchToken()]
    assert clocked.at(250_000) == []  # one at a time
    new = token(250_000, 100)
    clocked.fetched(new)
    assert clocked.own.text == new
    assert clocked.at(329_999) == []
    assert clocked.at(330_000) == [FetchToken()]


def test_a_token_that_has_not_been_replaced_is_looked_at_more_and_more_often():
    old = token(0, 10)
    clocked = Clocked(old)
    moments = []
    for moment in range(0, 20_000, 100):
        if clocked.at(moment) == [FetchToken()]:
            moments.append(moment)
            clocked.fetched(old)
    assert moments[:3] == [8_000, 9_600, 10_600]
    assert {later - sooner for sooner, later in pairwise(moments[1:])} == {LEAST_MS}


def test_where_none_comes_the_old_one_stays_and_the_next_try_comes_later():
    old = token(0, 300)
    clocked = Clocked(old)
    due, waits = 240_000, []
    for _ in range(6):
        assert clocked.at(due) == [FetchToken()]
        clocked.fetched(problem="there is no such file")
        (event,) = clocked.at(due)
        assert isinstance(event, Event)
        assert (event.kind, event.level) == ("token.not_fetched", "error")
        assert event.fields == {"reason": "there is no such file"}
        assert clocked.own.text == old
        waits.append(clocked.own.alarm.at - due)
        due = clocked.own.alarm.at
    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]
    assert clocked.at(due) == [FetchToken()]
    clocked.fetched(token(due, 100))
    assert clocked.own.alarm.at == clocked.own.next_deadline == due + 80_000


def test_without_a_token_none_is_fetched_and_none_is_printed():
    assert Clocked("").at(10**9) == []
    own = OwnToken(token(0, 1), [])
    assert own.text not in repr(own)


@pytest.mark.parametrize("text", ["opaque", "a.b.c", f"a.{'W10'}.c"])
def test_a_token_that_does_not_say_when_it_expires_is_fetched_again_soon(text):
    clocked = Clocked(text)
    assert clocked.at(LEAST_MS - 1) == []
    assert clocked.at(LEAST_MS) == [FetchToken()]
