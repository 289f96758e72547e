"""The event loop against real sockets: order, back pressure, limits, timers, the disk off the loop, and faults."""

import resource
import socket
import time

import pytest

from tests.shell.echo import PATIENCE_S, framed, is_closed, receive, receive_frame, serving
from tests.waiting import wait_for
from tidelog.effects import (
    Close,
    Connect,
    Event,
    FileSlice,
    Pause,
    PutBack,
    Remove,
    Replace,
    Send,
    SetConnectionLimits,
    Stop,
    Store,
    Sync,
    SyncFolders,
)
from tidelog.errors import DiskFailed
from tidelog.shell.connections import connection
from tidelog.shell.connections.connection import UNSENT_BOUND
from tidelog.shell.disk import OsDisk
from tidelog.wire.frames import FrameReader


@pytest.fixture
def disk(tmp_path):
    return OsDisk([str(tmp_path)])


def file_of(disk, tmp_path, content):
    file = disk.open(f"{tmp_path}/{len(disk.list(str(tmp_path)))}.log", create=True)
    file.write(0, content)
    return file


def test_frames_come_back_in_order_however_the_stream_is_cut():
    frames = [b"%d" % number * (number * 37 % 400 + 1) for number in range(60)]
    stream = b"".join(map(framed, frames))
    with serving() as running, running.connect() as client:
        for start in range(0, len(stream), 7):
            client.sendall(stream[start : start + 7])
        assert [receive_frame(client) for _ in frames] == frames


@pytest.mark.skipif(not socket.has_ipv6, reason="this Python has no IPv6")
def test_a_client_has_its_ipv4_address_on_a_listener_of_both_kinds():
    """Rules, quotas and limits name 127.0.0.1, not ::ffff:127.0.0.1."""
    options = {"max.connections.per.ip.overrides": "127.0.0.1:1"}
    with serving(options, address="::") as running, running.connect() as client, running.connect() as refused:
        client.sendall(framed(b"hello"))
        assert receive_frame(client) == b"hello"
        refused.settimeout(PATIENCE_S)
        assert is_closed(refused)


def test_clients_are_served_once_the_node_knows_the_cluster():
    """A broker that had just started reported a cluster without brokers to librdkafka, which then contacted no broker."""
    with serving(knows_cluster=False) as running, running.connect() as client:
        client.sendall(framed(b"early"))
        running.wish()
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        assert running.node.inputs == []
        client.settimeout(PATIENCE_S)
        running.node.knows_cluster = True
        running.wish()
        assert receive_frame(client) == b"early"


def test_a_large_frame_between_small_ones():
    large = bytes(range(256)) * 12_000
    with serving() as running, running.connect() as client:
        client.sendall(framed(b"a") + framed(large) + framed(b"b"))
        assert [receive_frame(client) for _ in range(3)] == [b"a", large, b"b"]


def test_large_frames_that_follow_each_other_share_a_buffer(monkeypatch):
    given = []
    allocate = FrameReader._allocate

    def spied(reader, size, least):
        given.append(allocate(reader, size, least))
        return given[-1]

    monkeypatch.setattr(FrameReader, "_allocate", spied)
    large = bytes(300_000)
    with serving() as running, running.connect() as client:
        for _ in range(20):
            client.sendall(framed(large))
            assert receive_frame(client) == large
        client.sendall(framed(b"done"))
        assert receive_frame(client) == b"done"
    assert len(given) >= 20
    assert len({id(buffer) for buffer in given[-19:]}) == 1  # the first frame's buffer grew while it arrived


def test_the_node_learns_who_came_and_who_left():
    with serving() as running:
        with running.connect() as client:
            assert running.node.wait_for("connected", 1) == ("connected", 1, "PLAINTEXT", "127.0.0.1", "User:ANONYMOUS")
            client.sendall(framed(b"x"))
            assert receive_frame(client) == b"x"
        running.node.wait_for("disconnected", 1)
        with running.connect():
            running.node.wait_for("connected", 2)


def test_slices_of_files_and_bytes_leave_in_order(disk, tmp_path):
    content = bytes(range(251)) * 4000
    file = file_of(disk, tmp_path, content)
    pieces = [(0, 10), (10, 20_000), (5, 300), (20_010, 900_000), (920_010, 3), (920_013, 0), (920_013, 16_384)]
    parts = []
    for position, length in pieces:
        parts += [b"<", memoryview(b"head"), bytearray(b">"), FileSlice(file, position, length)]
    expected = b"".join(b"<head>" + content[position : position + length] for position, length in pieces)
    with serving(folder=str(tmp_path)) as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [Send(connection, parts), Send(connection, [b"end"])]
        client.sendall(framed(b"1") + framed(b"2"))
        assert receive(client, 2 * (len(expected) + 3)) == 2 * (expected + b"end")


def test_a_removed_file_is_sent_as_long_as_a_slice_holds_it(disk, tmp_path):
    content = b"0123456789abcdef" * 4096 * 64
    files = [file_of(disk, tmp_path, content)]
    with serving(folder=str(tmp_path)) as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [Send(connection, [FileSlice(files[0], 0, len(content))])]
        client.sendall(framed(b"1"))
        head = receive(client, 10)
        files[0].close()
        disk.remove(files.pop().path)
        assert head + receive(client, len(content) - 10) == content


@pytest.mark.parametrize("size", [100, 300_000])
def test_a_cold_slice_is_brought_in_off_the_loop_and_order_is_kept(disk, tmp_path, monkeypatch, size):
    content = b"0123456789" * (size // 10)
    file = file_of(disk, tmp_path, content)
    brought = []

    def load_slice(part):
        brought.append(part)
        original(part)

    original = connection.load_slice
    monkeypatch.setattr(connection, "_read_cached", lambda part, into, position: -1)
    monkeypatch.setattr("tidelog.shell.connections.traffic.load_slice", load_slice)
    parts = [b"a", FileSlice(file, 0, size), b"b", FileSlice(file, 0, size)]
    with serving(folder=str(tmp_path)) as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [Send(connection, parts), Send(connection, [bytes(frame)])]
        client.sendall(framed(b"1") + framed(b"2"))
        expected = b"".join(b"a" + content + b"b" + content + end for end in (b"1", b"2"))
        assert receive(client, len(expected)) == expected
    assert len(brought) == 4


def test_where_the_file_system_cannot_tell_slices_are_read_directly(disk, tmp_path, monkeypatch):
    def preadv(*arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("os.preadv", preadv)
    monkeypatch.setattr(connection.Outgoing, "probing", True)
    file = file_of(disk, tmp_path, b"x" * 50_000)
    with serving(folder=str(tmp_path)) as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [
            Send(connection, [FileSlice(file, 0, 50), FileSlice(file, 0, 50_000)])
        ]
        client.sendall(framed(b"1"))
        assert receive(client, 50_050) == b"x" * 50_050
    assert connection.Outgoing.probing is False


@pytest.mark.parametrize("length", [2000, 60_000])
def test_a_slice_beyond_the_end_of_its_file_closes_the_connection(disk, tmp_path, length, capfd):
    file = file_of(disk, tmp_path, b"y" * 1000)
    with serving(folder=str(tmp_path)) as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [Send(connection, [FileSlice(file, 0, length)])]
        client.sendall(framed(b"1"))
        while not is_closed(client):
            pass
        running.node.wait_for("disconnected", 1)
    assert capfd.readouterr().err.count("short_slice") == 1


def test_a_client_that_does_not_read_is_not_read_from_until_it_does():
    answer = b"z" * 400_000
    asked = []
    with serving() as running, running.connect() as client:

        def answers(connection, frame):
            asked.append(bytes(frame))
            return [Send(connection, [answer])]

        running.node.answer = answers
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        running.node.wait_for("connected", 1)
        (link,) = running.server._traffic.connections.values()
        frame, sent, is_pushed_back = framed(b"q" * 50_000), 0, False
        while not is_pushed_back:  # the test's timeout ends a wait in vain
            is_unread = link.congested and not link.reading
            try:
                sent += client.send(frame[sent % len(frame) :])
            except BlockingIOError:
                is_pushed_back = is_unread
        assert link.outgoing.unsent < UNSENT_BOUND + 20 * len(answer)
        waiting = len(asked)
        client.setblocking(True)
        client.settimeout(PATIENCE_S)
        whole = sent // len(frame)
        assert waiting < whole + 1
        for _ in range(whole):
            receive(client, len(answer))
        wait_for(lambda: not link.congested, "the link to know that all is sent")


def test_garbage_closes_the_connection_with_one_line_and_disturbs_nobody(capfd):
    with serving() as running, running.connect() as good:
        for prefix in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n"):
            with running.connect() as bad:
                bad.sendall(prefix)
                assert is_closed(bad)
        good.sendall(framed(b"still"))
        assert receive_frame(good) == b"still"
    lines = capfd.readouterr().err.splitlines()
    assert [("connection.violation" in line, "WARNING test" in line) for line in lines] == [(True, True)] * 3


def test_a_requested_close_lets_the_last_bytes_out_first():
    last = b"w" * 30_000_000
    with serving() as running, running.connect() as client:
        running.node.answer = lambda connection, frame: [
            Send(connection, [framed(last)]),
            Close(connection),
            Send(connection, [b"never"]),
        ]
        client.sendall(framed(b"1"))
        assert receive_frame(client) == last
        assert is_closed(client)
        assert ("disconnected", 1) not in running.node.inputs


def test_a_paused_connection_is_not_read_from():
    with serving() as running, running.connect() as client:
        running.node.wait_for("connected", 1)
        running.wish(Pause(1, paused=True))
        running.wish(Sync(7, []))
        running.node.wait_for("synced", 7)
        client.sendall(framed(b"1"))
        (link,) = running.server._traffic.connections.values()
        assert not link.reading
        running.wish(Pause(1, paused=False))
        assert receive_frame(client) == b"1"


def test_frames_that_are_put_back_are_delivered_before_others_while_the_connection_is_read():
    seen = []

    def answers(connection, frame):
        seen.append(bytes(frame))
        if seen == [b"1"]:
            return [PutBack(connection, [memoryview(b"1"), memoryview(b"2")]), Pause(connection, paused=True)]
        return [Send(connection, [framed(b"answer to " + frame)])]

    with serving() as running, running.connect() as client:
        running.node.answer = answers
        client.sendall(framed(b"1"))
        wait_for(lambda: seen == [b"1"], "the first frame")
        client.sendall(framed(b"3"))
        running.wish(Sync(7, []))
        running.node.wait_for("synced", 7)
        assert seen == [b"1"]
        running.wish(Pause(1, paused=False))
        assert [receive_frame(client) for _ in range(3)] == [b"answer to %d" % number for number in (1, 2, 3)]
        assert seen == [b"1", b"1", b"2", b"3"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_connections_to_others_carry_frames_both_ways(host):
    with serving() as there, serving() as here:
        here.wish(Connect(-1, host, there.port))
        assert here.node.wait_for("connected", -1) == ("connected", -1, "", host, "")
        there.node.answer = lambda connection, frame: [Send(connection, [framed(b"answer to " + frame)])]
        here.node.answer = lambda connection, frame: here.node.remember("got", bytes(frame)) or []
        here.wish(Send(-1, [framed(b"question")]))
        here.node.wait_for("got", b"answer to question")
        here.wish(Close(-1))
        there.node.wait_for("disconnected", 1)


def test_a_connection_that_cannot_be_opened_is_reported_and_a_forgotten_one_is_not():
    with serving() as running, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        running.wish(Connect(-1, "127.0.0.1", nobody.getsockname()[1]))
        assert "refused" in running.node.wait_for("connect_failed", -1)[2]
        running.wish(Connect(-2, "no.such.name.invalid", 1))
        assert "no.such.name.invalid" in running.node.wait_for("connect_failed", -2)[2]
        running.wish(Connect(-3, "127.0.0.1", running.port), Close(-3), Sync(1, []))
        running.node.wait_for("synced", 1)
        assert not running.server._dialer._attempts
        assert ("connected", -3) not in [each[:2] for each in running.node.inputs]


def test_the_timer_follows_the_nodes_next_deadline():
    with serving() as running, running.connect() as client:

        def answers(connection, frame):
            running.node.next_deadline = int(frame)
            return []

        running.node.answer = answers
        start = time.monotonic_ns() // 1_000_000
        client.sendall(framed(b"%d" % (start + 60_000)) + framed(b"%d" % (start + 50)))
        assert start + 50 <= running.node.wait_for("wake")[1]


def test_syncs_replaces_and_removals_happen_off_the_loop_and_are_reported(disk, tmp_path):
    file = file_of(disk, tmp_path, b"x")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_bytes(b"")
    with serving(folder=str(tmp_path)) as running:
        running.wish(Sync(1, [file]), Replace(2, f"{tmp_path}/checkpoint", b"1"), Remove(f"{tmp_path}/old"))
        running.wish(SyncFolders(5, [str(tmp_path)]), SyncFolders(6, [f"{tmp_path}/gone"]))
        running.wish(Replace(3, f"{tmp_path}/checkpoint", b"2"), Replace(4, f"{tmp_path}/gone/checkpoint", b"2"))
        for token in (1, 2, 3, 4, 5):
            running.node.wait_for("synced", token)
        running.node.wait_for("disk_failed", 6, f"{tmp_path}/gone")
    assert (tmp_path / "checkpoint").read_bytes() == b"2"
    assert not (tmp_path / "old").exists()


def test_a_failed_sync_names_its_folder(disk, tmp_path):
    class Broken:
        path = f"{tmp_path}/t-0/0.log"

        def sync(self):
            raise DiskFailed(str(tmp_path), "Input/output error")

    with serving(folder=str(tmp_path)) as running:
        running.wish(Sync(5, [Broken()]))
        assert running.node.wait_for("disk_failed", 5) == ("disk_failed", 5, str(tmp_path), "Input/output error")


def test_store_operations_are_submitted_in_order():
    submitted = []
    with serving(store=lambda token, operations: submitted.append((token, operations))) as running:
        running.wish(Store(1, ()), Store(2, ()), Sync(1, []))
        running.node.wait_for("synced", 1)
    assert submitted == [(1, ()), (2, ())]


def test_beyond_max_connections_others_wait_until_one_leaves():
    with serving({"max.connections": "2"}) as running:
        first, second, third = running.connect(), running.connect(), running.connect()
        running.node.wait_for("connected", 2)
        third.sendall(framed(b"3"))
        second.sendall(framed(b"2"))
        assert receive_frame(second) == b"2"
        assert [each for each in running.node.inputs if each[0] == "connected"][2:] == []
        first.close()
        assert receive_frame(third) == b"3"
        second.close()
        third.close()


def test_connections_leave_descriptors_for_the_logs(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (4, 4))
    with serving() as running:
        clients = [running.connect() for _ in range(4)]
        running.node.wait_for("connected", 3)
        clients[2].sendall(framed(b"3"))
        assert receive_frame(clients[2]) == b"3"
        assert ("connected", 4) not in [each[:2] for each in running.node.inputs]
        clients[0].close()
        running.node.wait_for("connected", 4)
        for client in clients:
            client.close()


def test_a_connection_too_many_from_one_address_is_closed_at_once(capfd):
    options = {"max.connections.per.ip": "5", "max.connections.per.ip.overrides": "10.0.0.1:9,127.0.0.1:1"}
    with serving(options) as running, running.connect() as first, running.connect() as second:
        assert is_closed(second)
        first.sendall(framed(b"1"))
        assert receive_frame(first) == b"1"
    assert "max.connections.per.ip is 1" in capfd.readouterr().err


UNLIMITED = SetConnectionLimits(1000, 1000, {}, 1e9, {})
ONE_WINDOW = {"quota.window.num": "1"}


def test_other_limits_hold_from_now_on():
    with serving({"max.connections": "1"}) as running, running.connect() as first, running.connect() as second:
        second.sendall(framed(b"2"))
        first.sendall(framed(b"1"))
        assert receive_frame(first) == b"1"
        running.wish(UNLIMITED)
        assert receive_frame(second) == b"2"
        running.wish(UNLIMITED._replace(per_host=2), Sync(1, []))
        running.node.wait_for("synced", 1)
        with running.connect() as third:
            assert is_closed(third)


def test_an_address_that_comes_too_often_waits_and_is_closed(capfd):
    with serving(ONE_WINDOW) as running:
        running.wish(UNLIMITED._replace(host_rates={None: 1.0, "127.0.0.1": 3.0}), Sync(1, []))
        running.node.wait_for("synced", 1)
        closed = []
        while not closed:  # where there was a pause between them, all may come in
            found = [running.connect() for _ in range(4)]
            closed = [number for number, each in enumerate(found) if not is_served(each)]
            for each in found:
                each.close()
        assert set(closed) < {0, 1, 2, 3}
    assert "connection_creation_rate is 3" in capfd.readouterr().err


def is_served(sock):
    try:
        sock.sendall(framed(b"x"))
        return receive_frame(sock) == b"x"
    except (AssertionError, ConnectionError):
        return False


def test_too_many_at_once_are_accepted_one_after_the_other():
    with serving(ONE_WINDOW) as running:
        running.wish(UNLIMITED._replace(rate=10.0), Sync(1, []))
        running.node.wait_for("synced", 1)
        found = [running.connect() for _ in range(13)]
        for each in found:
            each.sendall(framed(b"x"))
        assert [receive_frame(each) for each in found] == [b"x"] * 13
        for each in found:
            each.close()


def test_socket_buffers_have_the_size_that_was_asked_for_else_the_systems():
    options = {"socket.send.buffer.bytes": "30000", "socket.receive.buffer.bytes": "20000"}
    with serving(options) as running, running.connect():
        running.node.wait_for("connected", 1)
        (link,) = running.server._traffic.connections.values()
        sizes = [link.sock.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
    assert sizes == [60_000, 40_000]  # Linux counts its own overhead in


def test_a_silent_client_is_closed_after_connections_max_idle_ms():
    with serving({"connections.max.idle.ms": "100"}) as running, running.connect() as client:
        assert is_closed(client)
        running.node.wait_for("disconnected", 1)


def test_an_event_is_one_plain_line(capfd):
    with serving() as running:
        running.wish(
            Event("isr.shrink", {"partition": "t-0", "isr": [1, 2], "reason": "a\nb"}),
            Event("quiet", {}, level="debug"),
            Sync(1, []),
        )
        running.node.wait_for("synced", 1)
    (line,) = capfd.readouterr().err.splitlines()
    assert line.split(" ", 1)[1] == r"INFO test isr.shrink partition=t-0 isr='[1, 2]' reason='a\nb'"


def test_a_node_that_has_stopped_hears_nothing_that_the_same_turn_still_brings():
    with serving() as running:

        def turn():
            running.server.notify(running.node.wish, Stop())
            running.server.frames_received(1, [memoryview(b"late")], None)
            running.server.connection_closed(1)

        running.node.answer = lambda *_: running.node.remember("answered")
        running.server.call(turn)
        assert running.ended.wait(PATIENCE_S)
    assert running.node.inputs == []


def test_a_stop_ends_the_loop_and_a_fault_of_the_node_ends_the_process(capfd):
    with serving() as running:
        running.wish(Stop())
    assert running.server.stopping
    with serving(exit_code=1) as running, running.connect() as client:

        def answers(connection, frame):
            raise AssertionError("impossible")

        running.node.answer = answers
        client.sendall(framed(b"1"))
        assert running.ended.wait(PATIENCE_S)
    assert "broker.crashed" in capfd.readouterr().err
