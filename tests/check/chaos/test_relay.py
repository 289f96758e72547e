"""The relay before a broker: passes on what it gets, and delivers late, and in another order, what it holds."""

import socket
import threading
from contextlib import ExitStack, suppress

import pytest

from tests.waiting import wait_for
from tidelog.check.chaos.relay import BEHIND, Relay
from tidelog.effects import FileSlice
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire.codec import decode_request, encode_request, encode_response
from tidelog.wire.messages.cluster.controller_pushes import UpdateMetadataRequest, UpdateMetadataResponse

UPDATE_METADATA, VERSION = 6, 8
LONG_S, PROMPT_S, SHORT_S = 3_600.0, 1.0, 0.2
ONE, OTHER = 1, 2


def frame(number, source=ONE, epoch=0):
    request = UpdateMetadataRequest(controller_id=source, controller_epoch=epoch)
    parts = encode_request(UPDATE_METADATA, VERSION, number, f"broker-{source}", request)
    return b"".join(part for part in parts if not isinstance(part, FileSlice))


class Broker:
    """Behind the relay: notes the requests and refuses those of a controller epoch below the last."""

    def __init__(self, exits, port):
        self.got = []
        self.ends = 0
        self.is_silent = False
        self._highest = 0
        self._door = exits.enter_context(socket.create_server((BEHIND, port)))
        exits.callback(self._door.shutdown, socket.SHUT_RDWR)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with suppress(OSError), sock, sock.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4 and len(body := stream.read(int.from_bytes(prefix))) > 3:
                self._answer(sock, body)
        self.ends += 1

    def _answer(self, sock, body):
        with suppress(ProtocolViolation):  # it was cut off
            header, request = decode_request(body)
            self.got.append(header.correlation_id)
            stale = request.controller_epoch < self._highest
            self._highest = max(self._highest, request.controller_epoch)
            response = UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH if stale else ErrorCode.NONE)
            if not self.is_silent:
                sock.sendall(b"".join(encode_response(UPDATE_METADATA, VERSION, header.correlation_id, response)))


@pytest.fixture
def exits():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def relay(exits):
    return exits.enter_context(Relay(0, "127.0.0.1"))


@pytest.fixture
def broker(exits, relay):
    return Broker(exits, relay.port)


def dial(exits, relay, number=0, source=ONE):
    """A connection on which a first request was answered: the relay knows by now who opened it."""
    sock = exits.enter_context(socket.create_connection((relay.host, relay.port), timeout=30))
    ask(sock, number, source)
    return sock


def ask(sock, number, source=ONE, epoch=0):
    sock.sendall(frame(number, source, epoch))
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
    assert int.from_bytes(sock.recv(size, socket.MSG_WAITALL)[:4]) == number


def hold_next(relay, at_most_s):
    relay.hold(ONE, at_most_s)
    wait_for(lambda: any(each.hold_s is not None for each in list(relay._connections)), "the relay holds")


def hold(relay, sock, number, source=ONE):
    """A request that is held now."""
    hold_next(relay, LONG_S)
    sock.sendall(frame(number, source))
    wait_for(lambda: number in [header.correlation_id for header, _ in held_requests(relay)], "the request is held")


def held_requests(relay):
    return [each for connection in list(relay._connections) for each in connection.held_requests]


def sender_closed(relay, sock):
    sock.close()
    wait_for(lambda: any(each.sender_closed for each in list(relay._connections)), "the relay sees the end")


def test_what_is_not_held_passes_both_ways(exits, relay, broker):
    ask(dial(exits, relay), 1)
    assert broker.got == [0, 1]
    assert relay.late == []


def test_a_held_request_arrives_after_its_connection_is_closed_and_behind_what_was_sent_later(exits, relay, broker):
    sock = dial(exits, relay)
    hold(relay, sock, 1)
    sender_closed(relay, sock)
    ask(dial(exits, relay, 2), 3, epoch=1)
    assert broker.got == [0, 2, 3]
    relay.deliver()
    wait_for(lambda: len(broker.got) == 4, "it arrives")
    (late,) = wait_for(lambda: [each for each in relay.late if each.answer], "it is answered")
    assert broker.got == [0, 2, 3, 1]
    assert (late.api, late.source, late.target) == ("UpdateMetadata", ONE, 0)
    assert late.answer == ErrorCode.STALE_CONTROLLER_EPOCH.name
    assert late.arrived_at > late.sent_at
    wait_for(lambda: broker.ends == 1, "its connection ends")


def test_it_arrives_by_itself_when_its_time_has_come(exits, relay, broker):
    sock = dial(exits, relay)
    hold_next(relay, PROMPT_S)
    sock.sendall(frame(1))
    sock.close()
    (late,) = wait_for(lambda: relay.late, "it arrives late")
    assert late.arrived_at - late.sent_at > PROMPT_S / 2 - SHORT_S


def test_a_sender_that_waits_still_has_only_been_delayed(exits, relay, broker):
    sock = dial(exits, relay)
    hold(relay, sock, 1)
    relay.deliver()
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL))
    assert int.from_bytes(sock.recv(size, socket.MSG_WAITALL)[:4]) == 1
    ask(sock, 2)
    assert relay.late == []


def test_only_the_connections_of_the_source_are_held(exits, relay, broker):
    sock, other = dial(exits, relay), dial(exits, relay, 1, source=OTHER)
    hold(relay, sock, 2)
    ask(other, 3, source=OTHER)
    assert broker.got == [0, 1, 3]


def test_after_the_fault_nothing_more_is_held_but_what_is_held_stays_so(exits, relay, broker):
    idle, busy = dial(exits, relay), dial(exits, relay, 1)
    hold(relay, busy, 2)
    relay.stop_holding(ONE)
    ask(idle, 3)
    assert broker.got == [0, 1, 3]
    sender_closed(relay, busy)
    relay.deliver()
    wait_for(lambda: broker.got == [0, 1, 3, 2], "it arrives")


def test_half_a_request_that_was_cut_off_arrives_and_is_not_counted(exits, relay, broker):
    sock = dial(exits, relay)
    hold(relay, sock, 1)
    sock.sendall(frame(2)[:7])
    sender_closed(relay, sock)
    relay.deliver()
    wait_for(lambda: broker.ends == 1, "its connection ends")
    assert broker.got == [0, 1]
    assert len(relay.late) == 1


def test_what_nobody_answers_is_told_so(exits, relay, broker, monkeypatch):
    monkeypatch.setattr("tidelog.check.chaos.relay.LINGER_S", SHORT_S)
    sock = dial(exits, relay)
    hold(relay, sock, 1)
    broker.is_silent = True
    sender_closed(relay, sock)
    relay.deliver()
    wait_for(lambda: broker.ends == 1, "its connection ends")
    assert [each.answer for each in relay.late] == [None]


def test_a_broker_that_does_not_run_is_a_connection_that_ends(exits, relay):
    sock = exits.enter_context(socket.create_connection((relay.host, relay.port), timeout=30))
    with suppress(ConnectionResetError):
        assert sock.recv(1) == b""


def test_what_keeps_a_relay_from_starting_is_raised_where_it_is_started():
    def refuse():
        raise PermissionError("no namespace")

    relay = Relay(0, "127.0.0.1", enter=refuse)
    with pytest.raises(PermissionError, match="no namespace"):
        relay.__enter__()
