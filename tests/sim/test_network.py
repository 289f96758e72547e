"""The simulated network: streams arrive in order and in pieces, end in the middle of a frame, and get narrow."""

from random import Random

from tidelog.sim.network import Network, Weather


class Clock:
    def __init__(self):
        self.random = Random(1)
        self.micros = 0
        self.planned = []

    def after(self, delay, action):
        self.planned.append((self.micros + delay, len(self.planned), action))

    def run(self, until=10**9):
        while self.planned and min(self.planned)[0] <= until:
            first = min(self.planned)
            self.planned.remove(first)
            self.micros = first[0]
            first[2]()


class Someone:
    def __init__(self, name, clock):
        self.name, self.clock = name, clock
        self.end = None
        self.got, self.times, self.lost, self.failed = [], [], False, None

    def connected(self, end):
        self.end = end

    def connect_failed(self, number, reason):
        self.failed = reason

    def arrived(self, end, data):
        self.got.append(data)
        self.times.append(self.clock.micros)

    def disconnected(self, end):
        self.lost = True


def linked(weather):
    clock = Clock()
    network = Network(clock, weather)
    one, other = Someone("one", clock), Someone("other", clock)
    network.listen("other", 1, other, "L")
    network.connect(one, -1, "other", 1)
    clock.run()
    assert one.failed is None
    return clock, network, one, other


def test_what_is_sent_arrives_in_order_however_it_was_split():
    clock, network, one, other = linked(Weather(split_chance=1.0, tail_chance=0.5))
    sent = [bytes([number]) * 50 for number in range(20)]
    for data in sent:
        network.send(one.end, data)
    clock.run()
    assert b"".join(other.got) == b"".join(sent)
    assert len(other.got) > 30


def test_a_link_breaks_in_the_middle_of_what_is_sent_and_both_sides_hear_of_it():
    lengths = set()
    for seed in range(30):
        clock, network, one, other = linked(Weather(cut_chance=1.0))
        clock.random.seed(seed)
        network.send(one.end, b"x" * 100)
        network.send(one.end, b"never")
        clock.run()
        assert one.lost
        assert other.lost
        assert b"never" not in b"".join(other.got)
        lengths.add(len(b"".join(other.got)))
    assert len(lengths) > 10
    assert max(lengths) <= 100


def test_a_narrow_way_lets_only_so_many_bytes_through_and_the_other_way_stays_wide():
    clock, network, one, other = linked(Weather())
    network.narrow("one", "other", 1_000)
    start = clock.micros
    for _ in range(3):
        network.send(one.end, b"x" * 500)
    network.send(other.end, b"y" * 5_000)
    clock.run()
    assert one.times[0] - start < 1_000
    late = [moment - start for moment in other.times]
    assert all(abs(moment - 500_000 * number) < 5_000 for number, moment in enumerate(late, 1)), late


def test_healing_widens_every_way():
    clock, network, one, other = linked(Weather())
    network.narrow("one", "other", 1)
    network.heal()
    start = clock.micros
    network.send(one.end, b"x" * 500)
    clock.run()
    assert other.times[0] - start < 1_000


def test_what_was_held_on_a_link_that_its_sender_gave_up_arrives_late_and_behind_what_came_after():
    clock, network, one, other = linked(Weather(split_chance=0.0))
    first, accepted = one.end, other.end
    network.block("one", "other")
    network.send(first, b"before")
    clock.run(clock.micros + 10_000)
    network.abandon("one", "other", 1_000_000)
    clock.run(clock.micros + 10_000)
    assert one.lost
    assert not other.lost
    network.connect(one, -2, "other", 1)
    clock.run(clock.micros + 10_000)
    network.send(one.end, b"after")
    network.send(accepted, b"nobody hears it")
    clock.run()
    assert other.got == [b"after", b"before"]
    assert other.lost
    assert one.got == []


def test_what_one_end_says_is_held_with_the_end_of_the_stream_until_it_is_let_go():
    clock, network, one, other = linked(Weather(split_chance=0.0))
    release = network.hold(other.end)
    network.send(other.end, b"answer")
    network.leave(other, silent=False)
    network.send(one.end, b"to nobody")
    clock.run()
    assert (one.got, one.lost) == ([], False)
    release()
    clock.run()
    assert (one.got, one.lost) == ([b"answer"], True)
    release()
    clock.run()
    assert one.got == [b"answer"]


def test_who_is_refused_opens_no_more_connections_and_keeps_those_it_has():
    clock, network, one, other = linked(Weather(split_chance=0.0))
    network.refuse("one", "other")
    network.connect(one, -2, "other", 1)
    network.send(one.end, b"still here")
    clock.run()
    assert (one.failed, other.got) == ("refused", [b"still here"])
    network.heal()
    one.failed = None
    network.connect(one, -2, "other", 1)
    clock.run()
    assert (one.failed, one.end.number) == (None, -2)
