"""Requests that are arriving share a budget, and must go on arriving."""

import time

import pytest

from tests.shell.echo import framed, is_closed, receive_frame, serving
from tests.waiting import wait_for
from tidelog.effects import Pause, Retain, Sync
from tidelog.shell.connections import arrivals
from tidelog.shell.connections.arrivals import SCARCE, USUAL, Pace
from tidelog.shell.connections.traffic import Traffic

BUDGET = 150_000
SMALL = {"queued.max.request.bytes": str(BUDGET), "socket.request.max.bytes": str(BUDGET)}
LARGE = bytes(range(256)) * 576
"""Nearly as large as the whole budget, and small enough for the kernel to keep while the broker does not read."""
HALF = 75_000


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However slow the machine is, nobody is too slow, unless a test says so."""
    monkeypatch.setattr(arrivals, "USUAL", Pace(3_600_000, 1))
    monkeypatch.setattr(arrivals, "SCARCE", Pace(3_600_000, 1))


def parts_of(running):
    return running.server._traffic.arrivals, running.server._traffic.connections


def half_sent(running, count):
    """Connections that have sent half of a large request, or as much of it as the broker took."""
    clients = [running.connect() for _ in range(count)]
    for client in clients:
        client.sendall(framed(LARGE)[:HALF])
    return clients


def test_a_length_alone_takes_little_memory():
    with serving() as running:
        clients = [running.connect() for _ in range(50)]
        for client in clients:
            client.sendall((100_000_000).to_bytes(4) + b"few")
        shared, _ = parts_of(running)
        wait_for(lambda: len(shared._incomplete) == 50, "all prefixes to arrive")
        assert shared.buffers.used <= 50 * 64 * 1024
        for client in clients:
            client.close()
        wait_for(lambda: shared.buffers.used == 0, "the memory of closed connections to be free")


@pytest.mark.parametrize("newest_first", [False, True])
def test_when_the_budget_is_used_up_all_requests_are_served_in_turn(newest_first):
    """Each of them fits, and all wait for one another; only the oldest may go on in any case."""
    with serving(SMALL) as running:
        shared, _ = parts_of(running)
        clients = half_sent(running, 6)
        wait_for(lambda: shared.waiting >= 3, "some to be starved")
        assert shared.buffers.used <= BUDGET + 2 * len(LARGE)
        order = clients[::-1] if newest_first else clients
        for client in order:
            client.sendall(framed(LARGE)[HALF:])
        for client in order:
            assert receive_frame(client) == LARGE
            client.close()
        wait_for(lambda: (shared.buffers.used, shared.waiting) == (0, 0), "all memory to be free")


def test_small_requests_are_served_while_the_budget_is_used_up():
    with serving(SMALL) as running, running.connect() as small:
        shared, _ = parts_of(running)
        clients = half_sent(running, 6)
        wait_for(lambda: shared.waiting >= 3, "some to be starved")
        for size in (1, 3_000, 10_000):
            small.sendall(framed(b"s" * size))
            assert receive_frame(small) == b"s" * size
        for client in clients:
            client.close()


def test_whoever_leaves_frees_memory_for_the_others():
    with serving(SMALL) as running:
        shared, _ = parts_of(running)
        *leaving, last = half_sent(running, 6)
        wait_for(lambda: shared.waiting >= 3, "some to be starved")
        for client in leaving:
            client.close()
        last.sendall(framed(LARGE)[HALF:])
        assert receive_frame(last) == LARGE
        last.close()


def test_memory_of_a_request_counts_until_it_was_served_and_no_longer():
    """A buffer stayed with its connection until that sent something again."""
    with serving() as running, running.connect() as client:
        shared, connections = parts_of(running)
        frame = bytes(3_000_000)
        for _ in range(3):
            client.sendall(framed(frame))
            assert receive_frame(client) == frame
            wait_for(lambda: shared.buffers.used == 0, "the request to be given up")
        (link,) = connections.values()
        assert link.reader._used is None


def is_served(running):
    """Whether a new client gets its answer. On a slow machine it may be closed as well, and comes again."""
    with running.connect() as client:
        try:
            client.sendall(framed(LARGE))
            return receive_frame(client) == LARGE
        except (AssertionError, ConnectionError):
            return False


@pytest.mark.parametrize(
    ("pace", "age_ms", "bytes_due"),
    [
        (USUAL, 30_000, 0),
        (USUAL, 31_000, 4 * 1024),
        (USUAL, 60_000, 30 * 4 * 1024),
        (SCARCE, 10_000, 0),
        (SCARCE, 14_000, 1024 * 1024),
    ],
)
def test_what_a_request_must_have_sent_depends_on_its_age(pace, age_ms, bytes_due):
    assert pace.demands(age_ms) == bytes_due


def test_a_request_that_comes_too_slowly_closes_its_connection(monkeypatch, capfd):
    """Each byte used to start the idle time anew. Half a length counts, too; who is between requests may be silent."""
    monkeypatch.setattr(arrivals, "CHECK_S", 0.05)
    monkeypatch.setattr(arrivals, "USUAL", Pace(200, 1_000_000))
    with serving() as running, running.connect() as idle, running.connect() as slow, running.connect() as slower:
        idle.sendall(framed(b"one"))
        assert receive_frame(idle) == b"one"
        slower.sendall(b"\0\0")
        slow.sendall((1000).to_bytes(4))
        for _ in range(3000):
            try:
                slow.sendall(b"x")
            except OSError:
                break
            time.sleep(0.01)
        assert is_closed(slow)
        assert is_closed(slower)
        idle.sendall(framed(b"two"))
        assert receive_frame(idle) == b"two"
        assert running.server.events["connection.too_slow"] == 2
    assert "connection.too_slow" in capfd.readouterr().err


def test_time_in_which_the_broker_does_not_read_does_not_count(monkeypatch):
    monkeypatch.setattr(arrivals, "CHECK_S", 0.02)
    with serving() as running, running.connect() as client:
        shared, connections = parts_of(running)
        client.sendall(framed(LARGE)[:HALF])
        wait_for(lambda: len(shared._incomplete) == 1, "the request to begin")
        running.wish(Pause(1, paused=True), Sync(1, []))
        running.node.wait_for("synced", 1)
        (link,) = connections.values()
        began = link.began
        monkeypatch.setattr(arrivals, "USUAL", Pace(0, 10**12))  # whoever is judged now is too slow
        wait_for(lambda: link.began >= began + 100, "checks while the connection is paused")
        assert connections
        monkeypatch.setattr(arrivals, "USUAL", USUAL)
        running.wish(Pause(1, paused=False))
        client.sendall(framed(LARGE)[HALF:])
        assert receive_frame(client) == LARGE


def test_while_memory_is_short_whoever_holds_it_idly_is_closed(monkeypatch):
    """Requests that are never finished lock others out for that long only."""
    monkeypatch.setattr(arrivals, "CHECK_S", 0.05)
    with serving(SMALL) as running:
        shared, _ = parts_of(running)
        hoarders = half_sent(running, 6)
        wait_for(lambda: shared.waiting >= 3, "some to be starved")
        monkeypatch.setattr(arrivals, "SCARCE", Pace(300, 10_000_000))
        wait_for(lambda: is_served(running), "a request to be served")
        assert running.server.events["connection.too_slow"] >= 1
        for client in hoarders:
            client.close()


def test_the_process_that_stood_still_blames_nobody(monkeypatch):
    monkeypatch.setattr(arrivals, "CHECK_S", 0.02)
    monkeypatch.setattr(arrivals, "LATE_MS", -1)
    monkeypatch.setattr(arrivals, "USUAL", Pace(0, 10**12))
    with serving() as running, running.connect() as client:
        shared, connections = parts_of(running)
        client.sendall(framed(LARGE)[:HALF])
        wait_for(lambda: len(shared._incomplete) == 1, "the request to begin")
        (link,) = connections.values()
        began = link.began
        wait_for(lambda: link.began >= began + 100, "late checks")
        client.sendall(framed(LARGE)[HALF:])
        assert receive_frame(client) == LARGE
        assert isinstance(running.server._traffic, Traffic)


def test_what_waits_for_a_thread_counts(monkeypatch):
    """Thousands of requests of 250 KB, each read at once, would be kept otherwise."""
    with serving(SMALL) as running, running.connect() as waiting, running.connect() as other:
        shared, _ = parts_of(running)
        running.node.wait_for("connected", 2)
        running.wish(Pause(1, paused=True), Retain(1, BUDGET), Sync(1, []))
        running.node.wait_for("synced", 1)
        assert shared.buffers.used == BUDGET
        first, second = half_sent(running, 2)
        wait_for(lambda: shared.waiting == 1, "one to be starved: the oldest never is")
        other.sendall(framed(b"small"))
        assert receive_frame(other) == b"small"
        running.wish(Retain(1, 0), Pause(1, paused=False))
        for client in (second, first):
            client.sendall(framed(LARGE)[HALF:])
        for client in (first, second):
            assert receive_frame(client) == LARGE
            client.close()
        running.wish(Retain(1, 5))
        wait_for(lambda: shared.buffers.used == 5, "the rest to be free")
        waiting.close()
        wait_for(lambda: shared.buffers.used == 0, "what was kept to be free")
