"""A node that echoes frames, and a server that runs it on a thread: what the shell's own tests drive."""

import socket
import threading
from contextlib import contextmanager

import uvloop

from tidelog.config.broker import BrokerConfig
from tidelog.effects import Send
from tidelog.shell.connections.acceptor import bind
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.disk import OsDisk
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.server import Server

PATIENCE_S = 60.0


def framed(data):
    return len(data).to_bytes(4) + data


class EchoNode:
    """Sends every frame back. `inputs` remembers what it was told; `wishes` are added to the next answer."""

    def __init__(self):
        self.next_deadline = None
        self.knows_cluster = True
        self.inputs = []
        self.told = threading.Condition()
        self.answer = lambda connection, frame: [Send(connection, (framed(bytes(frame)),))]

    def remember(self, *what):
        with self.told:
            self.inputs.append(what)
            self.told.notify_all()

    def wait_for(self, *what, seconds=PATIENCE_S):
        def came():
            return [each for each in self.inputs if each[: len(what)] == what]

        with self.told:
            assert self.told.wait_for(came, seconds), (what, self.inputs)
            return came()[0]

    def connected(self, connection, listener, peer, principal, now):
        self.remember("connected", connection, listener, peer, principal)
        return []

    def connect_failed(self, connection, reason, now):
        self.remember("connect_failed", connection, reason)
        return []

    def receive(self, connection, frames, now):
        return [effect for frame in frames for effect in self.answer(connection, frame)]

    def disconnected(self, connection, now):
        self.remember("disconnected", connection)
        return []

    def synced(self, token, now):
        self.remember("synced", token)
        return []

    def disk_failed(self, token, folder, reason, now):
        self.remember("disk_failed", token, folder, reason)
        return []

    def examined(self, token, verdict, now):
        self.remember("examined", token, verdict)
        return []

    def disk_full(self, folder, reason, now):
        self.remember("disk_full", folder, reason)
        return []

    def wake(self, now):
        self.remember("wake", now.mono)
        self.next_deadline = None
        return []

    def wish(self, *effects_and_now):
        """An input that only returns these effects."""
        return list(effects_and_now[:-1])


class Running:
    def __init__(self, node, server, loop, port):
        self.node = node
        self.server = server
        self.loop = loop
        self.port = port
        self.ended = threading.Event()

    def run(self):
        self.loop.run_forever()
        self.ended.set()

    def wish(self, *effects):
        self.server.notify_threadsafe(self.node.wish, *effects)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


@contextmanager
def serving(options=None, *, folder="/", store=None, exit_code=0, knows_cluster=True, address="127.0.0.1"):
    """A server with one listener on a free port, until the block ends."""
    node = EchoNode()
    node.knows_cluster = knows_cluster
    loop = uvloop.new_event_loop()
    config = BrokerConfig({"node.id": "0", **(options or {})})
    submit = store or (lambda token, operations: None)
    server = Server(
        loop,
        node,
        config,
        OsDisk([folder]),
        logger=EventLogger("test"),
        tls=TlsListeners(config, EventLogger("test")),
        submit=submit,
        fetch_keys=lambda url, done: None,
        fetch_token=lambda done: None,
    )
    door = bind(address, 0, 50)
    server.listen("PLAINTEXT", door, limited=True)
    running = Running(node, server, loop, door.getsockname()[1])
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.close()
    assert server.exit_code == exit_code


def receive(sock, count):
    data = bytearray()
    while len(data) < count:
        part = sock.recv(count - len(data))
        assert part, f"closed after {len(data)} of {count} bytes"
        data += part
    return bytes(data)


def receive_frame(sock):
    return receive(sock, int.from_bytes(receive(sock, 4)))


def is_closed(sock):
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True
