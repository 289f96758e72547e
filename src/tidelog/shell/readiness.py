"""Asking a broker who it knows, with one blocking request: whether a cluster is complete."""

import socket
from dataclasses import dataclass

from tidelog.effects import FileSlice
from tidelog.errors import ProtocolViolation
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.topics.metadata import MetadataRequest

METADATA = 3
VERSION = 8
NO_CONTROLLER = -1


@dataclass(frozen=True, slots=True)
class View:
    """What one broker's metadata says: the brokers it lists, and who leads the cluster."""

    brokers: frozenset[int] = frozenset()
    controller: int = NO_CONTROLLER


def view_of(host: str, port: int, timeout_s: float = 1.0) -> View:
    """The broker's view; an empty one where it does not answer yet."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock:
            request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            parts = encode_request(METADATA, VERSION, 1, "tidelog-up", request)
            sock.sendall(b"".join(part for part in parts if not isinstance(part, FileSlice)))
            _, response = decode_response(METADATA, VERSION, memoryview(_receive_frame(sock)))
    except (OSError, ProtocolViolation):
        return View()
    return View(frozenset(broker.node_id for broker in response.brokers), response.controller_id)


def is_complete(view: View, brokers: frozenset[int]) -> bool:
    return view.brokers >= brokers and view.controller in brokers


def _receive_frame(sock: socket.socket) -> bytes:
    return _receive(sock, int.from_bytes(_receive(sock, 4)))


def _receive(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = sock.recv(count - len(data))
        if not part:
            raise ConnectionResetError("closed within an answer")
        data += part
    return data
