"""Responses read on a blocking socket: a length is believed only as far as bytes follow it."""

import socket

import pytest

from tidelog.shell import blocking_frames
from tidelog.shell.blocking_frames import MAX_BYTES, receive_frame


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_response_arrives_whole(pair):
    ours, theirs = pair
    theirs.sendall((70_000).to_bytes(4) + b"a" * 70_000)
    assert receive_frame(ours) == b"a" * 70_000


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_BYTES + 1, 2**31 - 1])
def test_an_impossible_length_ends_the_connection(pair, length):
    ours, theirs = pair
    theirs.sendall(length.to_bytes(4, signed=True) + b"few")
    with pytest.raises(ConnectionResetError, match=str(length)):
        receive_frame(ours)


def test_a_length_alone_takes_no_memory(pair, monkeypatch):
    ours, theirs = pair
    asked = []
    theirs.sendall((MAX_BYTES).to_bytes(4) + b"few")
    theirs.shutdown(socket.SHUT_WR)
    monkeypatch.setattr(blocking_frames, "_PIECE", 1000)

    class Spied:
        def recv(self, count):
            asked.append(count)
            return ours.recv(count)

    with pytest.raises(ConnectionResetError, match="within"):
        receive_frame(Spied())
    assert max(asked) == 1000
