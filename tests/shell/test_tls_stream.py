"""TLS over memory between two sockets: nothing is lost or out of order, whatever the sockets take and bring."""

import random
import socket
import ssl
from contextlib import suppress
from socket import MSG_MORE
from types import SimpleNamespace

import pytest

from tests.shell.authority import Authority, server_context, underscored
from tests.waiting import own_clock
from tidelog.effects import FileSlice
from tidelog.shell import tls_stream
from tidelog.shell.connections import connection, handshakes
from tidelog.shell.connections.connection import ENCRYPTED_A_TURN, Outgoing
from tidelog.shell.connections.traffic import READS_PER_TURN
from tidelog.shell.disk import OsDisk
from tidelog.shell.tls_stream import RECEIVE_BYTES, RECORD_BYTES, SEND_BYTES, TlsStream

SMALL = 8 * 1024


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("streams"))


@pytest.fixture
def pair(authority):
    """A client's and a server's stream after the handshake, on sockets with small buffers."""
    near, far = socket.socketpair()
    for sock in (near, far):
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    client = TlsStream(near, authority.context(), "localhost")
    server = TlsStream(far, server_context(**underscored(authority)), None)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
                side.do_handshake()
                waiting.remove(side)
    yield client, server
    client.close()
    server.close()


def take(stream, into, size):
    space = bytearray(size)
    with suppress(BlockingIOError):
        into += space[: stream.recv_into(space)]


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_whatever_the_sockets_take(pair, seed):
    draw = random.Random(seed)
    client, server = pair
    data, received, sent = draw.randbytes(400_000), bytearray(), 0
    while len(received) < len(data):
        part = data[sent : sent + draw.choice([1, 100, 5_000, 100_000, 300_000])]
        with suppress(BlockingIOError):
            sent += client.send(part) if part else client.flush()
        take(server, received, draw.choice([1, 1000, RECORD_BYTES, 200_000]))
    assert sent == len(data)
    assert received == data
    assert not server.pending()


def test_what_waits_for_the_socket_counts_as_sent_when_it_has_left(pair):
    client, server = pair
    data = random.Random(1).randbytes(100_000)
    with pytest.raises(BlockingIOError):
        client.send(data)
    assert client.waiting == SEND_BYTES
    assert client.flush() == 0
    with pytest.raises(BlockingIOError):
        client.send(data)
    received, sent = bytearray(), 0
    while not sent:
        take(server, received, 50_000)
        sent = client.flush()
    assert (sent, client.waiting) == (SEND_BYTES, 0)
    while len(received) < SEND_BYTES:
        take(server, received, 50_000)
    assert received == data[:SEND_BYTES]


def test_few_bytes_with_more_to_come_leave_with_the_next(pair):
    client, server = pair
    received = bytearray()
    assert client.send(b"head", MSG_MORE) == 4
    take(server, received, 100)
    assert not received
    assert client.send(b"body") == 4
    take(server, received, 100)
    assert received == b"headbody"


def test_a_record_that_comes_in_pieces_is_read_when_it_is_whole(authority):
    """Each byte of the ciphertext comes by itself."""
    near, middle = socket.socketpair()
    other, far = socket.socketpair()
    for sock in (near, middle, other, far):
        sock.setblocking(False)
    client = TlsStream(near, authority.context(), "localhost")
    server = TlsStream(far, server_context(**underscored(authority)), None)
    shaken, received, sent = set(), bytearray(), 0
    for _ in range(100_000):
        for side in {client, server} - shaken:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                shaken.add(side)
        if client in shaken and not sent:
            sent = client.send(b"x" * 500)
        for source, target in ((middle, other), (other, middle)):
            with suppress(BlockingIOError):
                target.send(source.recv(1))
        if server in shaken:
            take(server, received, 10_000)
        if received:
            break
    assert received == b"x" * 500
    for sock in (near, middle, other, far):
        sock.close()


def test_a_stream_ends_with_the_socket_or_before_it(pair):
    client, server = pair
    with suppress(ssl.SSLWantReadError):
        client._tls.unwrap()  # close_notify
    client.flush()
    assert server.recv_into(bytearray(10)) == 0
    assert server.recv_into(bytearray(10)) == 0
    client._sock.close()
    assert server.recv_into(bytearray(10)) == 0


def test_who_does_not_read_what_tls_answers_is_cut_off(pair, monkeypatch):
    """An answer costs a peer a few bytes, a renegotiation or new keys; they must not pile up here."""
    client, server = pair
    client.send(b"x")
    server._outgoing.write(bytes(tls_stream.ANSWERS_BYTES + 1))
    with pytest.raises(ConnectionResetError, match="does not read"):
        server.recv_into(bytearray(10))


@pytest.mark.parametrize("cold", [False, True])
def test_slices_of_files_and_bytes_leave_in_order(pair, tmp_path, monkeypatch, cold):
    client, server = pair
    draw = random.Random(2)
    file = OsDisk([str(tmp_path)]).open(f"{tmp_path}/0.log", create=True)
    content = draw.randbytes(900_000)
    file.write(0, content)
    is_cold = [cold]
    read = connection._read_cached
    monkeypatch.setattr(
        connection, "_read_cached", lambda *given: -1 if is_cold.pop() else is_cold.append(False) or read(*given)
    )
    outgoing = Outgoing(server, encrypted=True)
    outgoing.put([b"head", FileSlice(file, 10, 700_000), b"middle", b"x" * 100_000, FileSlice(file, 5, 3), b"tail"])
    wanted = b"head" + content[10:700_010] + b"middle" + b"x" * 100_000 + content[5:8] + b"tail"
    received, was_cold = bytearray(), False
    while len(received) < len(wanted):
        outgoing.flush()
        if outgoing.cold is not None:
            was_cold = True
            is_cold.append(False)
            outgoing.cold_loaded()
        take(client, received, 50_000)
    assert received == wanted
    assert outgoing.flush()
    assert outgoing.unsent == 0
    assert was_cold == cold


def test_a_turn_of_the_loop_encrypts_a_bounded_number_of_bytes(pair, monkeypatch):
    """However fast the peer takes them: the rest waits for the next turn, and other connections come first."""
    _, server = pair
    monkeypatch.setattr(server, "_push", lambda: server._outgoing.read() or True)
    outgoing = Outgoing(server, encrypted=True)
    outgoing.put([bytes(64 * 1024)] * 200)
    before = outgoing.unsent
    assert not outgoing.flush()
    assert ENCRYPTED_A_TURN <= before - outgoing.unsent <= ENCRYPTED_A_TURN + SEND_BYTES


def test_a_read_decrypts_a_bounded_number_of_bytes(pair):
    """However many there are: the loop takes a fixed number of reads in a turn."""
    client, server = pair
    client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with suppress(BlockingIOError):
        client.send(bytes(SEND_BYTES))
    assert 0 < server.recv_into(bytearray(1 << 20)) <= RECEIVE_BYTES
    assert READS_PER_TURN * RECEIVE_BYTES <= 1 << 20


def test_a_turn_of_the_loop_takes_a_bounded_time_of_handshakes(monkeypatch):
    """Each step takes two thirds of a turn here: the second ends it, the others wait for the next."""
    clock, stepped, scheduled = [0.0], [], []
    monkeypatch.setattr(handshakes, "time", own_clock(monotonic=lambda: clock[0]))
    taking = handshakes.Handshakes(
        SimpleNamespace(call_soon=lambda function, *given: scheduled.append(function) or function)
    )

    def step(handshake):
        stepped.append(handshake)
        clock[0] += handshakes.TURN_S * 2 / 3

    monkeypatch.setattr(taking, "_step", step)
    waiting = [handshakes.Handshake(None, None, None, None) for _ in range(5)]
    taking._unfinished.update(waiting)
    for each in waiting:
        taking._enqueue(each)
    for turn in range(1, 4):
        assert len(scheduled) == turn
        scheduled[-1]()
        assert stepped == waiting[: 2 * turn]
    assert len(scheduled) == 3
