"""Produce requests of one record over one raw connection: prebuilt frames, a fixed number in flight, nothing decoded
but the first answer. Runs in a process of its own: python -m bench.loads.requests …
"""

import json
import subprocess
import sys
import time
from dataclasses import dataclass

from bench.wire import PRODUCE, Client, frame, leaders, one_record

RECEIVE_BYTES = 1 << 20


@dataclass(frozen=True)
class Requests:
    """`count` one-record requests, `in_flight` at a time."""

    acks: int
    in_flight: int
    count: int

    def run(self, port: int, topic: str) -> dict[str, float]:
        """Figures: `rate` per second; with one in flight also `p50` and `p99` in ms."""
        numbers = (port, topic, self.acks, self.in_flight, self.count)
        command = [sys.executable, "-m", __spec__.name, *map(str, numbers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
        found: dict[str, float] = json.loads(done.stdout)
        return found


def flood(client: Client, data: bytes, size: int, in_flight: int, count: int) -> dict[str, float]:
    """Keep `in_flight` requests under way; each complete answer makes room for the next."""
    sock = client.socket
    answered = rest = 0
    begin = time.perf_counter()
    sock.sendall(data * in_flight)
    while answered < count:
        complete, rest = divmod(rest + len(sock.recv(RECEIVE_BYTES)), size)
        answered += complete
        sock.sendall(data * complete)
    return {"rate": answered / (time.perf_counter() - begin)}


def one_by_one(client: Client, data: bytes, size: int, count: int) -> dict[str, float]:
    sock = client.socket
    took = []
    begin = now = time.perf_counter()
    for _ in range(count):
        before = now
        sock.sendall(data)
        got = 0
        while got < size:
            got += len(sock.recv(RECEIVE_BYTES))
        now = time.perf_counter()
        took.append(now - before)
    took.sort()
    return {
        "rate": len(took) / (now - begin),
        "p50": took[len(took) // 2] * 1000,
        "p99": took[len(took) * 99 // 100] * 1000,
    }


def run(port: int, topic: str, acks: int, in_flight: int, count: int) -> dict[str, float]:
    led, ports = leaders(port, topic)
    data = frame(PRODUCE, one_record(topic, [0], acks))
    with Client(ports[led[0]]) as client:
        client.socket.sendall(data)
        first = int.from_bytes(client.socket.recv(4, 0x100))  # MSG_WAITALL
        client.socket.recv(first, 0x100)
        code = client.call(PRODUCE, one_record(topic, [0], acks)).responses[0].partition_responses[0].error_code
        if code:
            raise RuntimeError(f"error {code}")
        if in_flight == 1:
            return one_by_one(client, data, first + 4, count)
        return flood(client, data, first + 4, in_flight, count)


if __name__ == "__main__":
    port, topic, acks, in_flight, count = sys.argv[1:]
    print(json.dumps(run(int(port), topic, int(acks), int(in_flight), int(count))))
