"""A broker process under fire, and the canary: a client on a connection of its own whose requests go on being answered."""

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from tests.compatibility.differential.batches import batch
from tests.compatibility.differential.wire import CLOSED, Connection, build
from tidelog.api.registry import Api
from tidelog.shell.child import Child
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

TOPIC = "canary"
ANSWER_S = 60.0


class Canary:
    """Writes a record and reads it back, on one connection that must never break."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)
        self._next = 0

    def close(self) -> None:
        self._connection.close()

    def sings(self) -> None:
        data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch(b"%d" % self._next)}]}]
        written = self._connection.ask("Produce", 12, acks=-1, timeout_ms=5000, topic_data=data)
        answer = written.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, self._next)
        place = {"partition": 0, "fetch_offset": self._next, "partition_max_bytes": 1000}
        wanted = [{"topic": TOPIC, "partitions": [place]}]
        read = self._connection.ask("Fetch", 12, max_wait_ms=5000, min_bytes=1, max_bytes=1000, topics=wanted)
        assert bytes(read.responses[0].partitions[0].records or b"").endswith(b"%d\0" % self._next)
        self._next += 1


def shoot(port: int, data: bytes, *, close: bool = True) -> bytes | str:
    """Send bytes on a new connection, end it from our side, and return what came back: an answer or CLOSED."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as sock:
        try:
            sock.sendall(data)
            if close:
                sock.shutdown(socket.SHUT_WR)
            return sock.recv(65536) or CLOSED
        except TimeoutError:
            raise
        except OSError:
            return CLOSED


def spoiled(api: Api) -> Iterator[bytes]:
    """Requests of the API, without their lengths, that are cut short or have bytes changed."""
    chance = random.Random(api.key)
    for version in {api.low, api.high}:
        made = build(SCHEMAS[api.key].request, version, {})
        whole = b"".join(map(bytes, codec.encode_request(api.key, version, 7, None, made)))[4:]
        for cut in range(8, len(whole), max(1, len(whole) // 8)):
            yield whole[:cut]
        for _ in range(8):
            changed = bytearray(whole) + chance.randbytes(chance.randrange(12))
            for _ in range(chance.randrange(1, 5)):
                changed[chance.randrange(8, len(changed))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            yield bytes(changed)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(key: int, version: int, *, flexible: bool = False) -> bytes:
    return struct.pack(">hhih", key, version, 7, -1) + (b"\0" if flexible else b"")


def resident_bytes(child: Child) -> int:
    """What the process holds in memory now."""
    pages = Path(f"/proc/{child.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096
