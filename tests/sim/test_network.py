"""Streams stay streams, whatever is held, released and cut on the way."""

import heapq
from random import Random

import pytest

from tidelog.sim.network import Network, Weather


class Clock:
    def __init__(self, seed):
        self.random = Random(seed)
        self.micros = 0
        self.planned = []
        self.count = 0

    def after(self, delay, action):
        self.count += 1
        heapq.heappush(self.planned, (self.micros + delay, self.count, action))

    def run(self, micros):
        end = self.micros + micros
        while self.planned and self.planned[0][0] <= end:
            self.micros, _, action = heapq.heappop(self.planned)
            action()
        self.micros = end


class Party:
    def __init__(self, name):
        self.name = name
        self.end = None
        self.heard = b""
        self.gone = False

    def connected(self, end):
        self.end = end

    def connect_failed(self, number, reason):
        raise AssertionError((number, reason))

    def arrived(self, end, data):
        self.heard += data

    def disconnected(self, end):
        self.gone = True


def linked(seed):
    clock = Clock(seed)
    network = Network(clock, Weather(tail_chance=0.2, tail=(1_000, 20_000), split_chance=0.5, reset_on_heal=0.0))
    one, other = Party("one"), Party("other")
    network.listen("other", 1, other, "L")
    network.connect(one, 1, "other", 1)
    clock.run(1_000_000)
    return clock, network, one, other


@pytest.mark.parametrize("seed", range(30))
def test_what_was_held_arrives_before_what_was_sent_after_it(seed):
    """Simulated seed 5032: what was on its way when the partition healed overtook what had been held."""
    clock, network, one, other = linked(seed)
    sent = b""
    for number in range(60):
        if number % 20 == 5:
            network.block("one", "other")
        if number % 20 == 15:
            network.heal()
        text = f"<{number}>".encode()
        sent += text
        network.send(one.end, text)
        clock.run(clock.random.randint(0, 3_000))
    network.heal()
    clock.run(1_000_000)
    assert other.heard == sent
    assert one.end.unsent == 0


def test_what_was_held_stays_held_where_the_way_is_closed_again_at_once():
    clock, network, one, other = linked(0)
    network.block("one", "other")
    network.send(one.end, b"a")
    clock.run(1_000_000)
    network.heal()
    network.block("one", "other")
    clock.run(1_000_000)
    assert other.heard == b""
    network.heal()
    clock.run(1_000_000)
    assert other.heard == b"a"


def test_the_end_of_a_stream_comes_after_all_that_was_sent():
    clock, network, one, other = linked(1)
    network.block("one", "other")
    network.send(one.end, b"a")
    network.close(one.end)
    clock.run(1_000_000)
    assert not other.gone
    network.heal()
    clock.run(1_000_000)
    assert (other.heard, other.gone) == (b"a", True)
