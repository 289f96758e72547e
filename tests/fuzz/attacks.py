"""Attacks on one broker process, by bytes and by large requests: what each costs the broker in CPU and memory, and a canary in latency.

    .venv/bin/python -m tests.fuzz.attacks [--seconds N] [--apis | NAME…]

prints the tables of docs/security.md. The canary is a client that produces small records one after another.
"""

import argparse
import gzip
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

import zstandard
from cramjam import snappy

from tests.compatibility.differential.batches import batch, seal, with_field
from tests.compatibility.differential.side import Side
from tests.compatibility.differential.wire import CLOSED, Connection
from tests.fuzz import large, turns
from tests.fuzz.hostile import shoot
from tests.fuzz.large import LARGE, Deletion, Million
from tests.fuzz.turns import LongestTurn
from tests.processes import Processes
from tidelog.shell.child import Child
from tidelog.wire import record_format
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.records import HEADER_BYTES

MEGABYTE = 1024 * 1024
CANARY = "tweets"
TOPICS: dict[str, dict[str, str]] = {
    CANARY: {},
    "compacted": {"cleanup_policy": "compact"},
    "gzipped": {"compression_type": "gzip", "max_message_bytes": str(10 * MEGABYTE)},
    "bombs": {},
}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Cost:
    """`cpu_s`, `turn_ms` (the longest turn of the event loop, as processor time) and `memory` (peak bytes above idle)
    of the broker, and the canary's latencies in ms."""

    name: str
    cpu_s: float = 0.0
    turn_ms: float = 0.0
    memory: int = 0
    latencies: list[float] = field(default_factory=list)
    outcome: str = ""

    def __str__(self) -> str:
        parts = f"cpu {self.cpu_s:6.2f} s  turn {self.turn_ms:6.1f} ms  memory {self.memory / MEGABYTE:6.0f} MB"
        canary = f"canary p50 {self.at(0.5):6.1f} p99 {self.at(0.99):6.1f} max {self.at(1):6.1f} ms"
        return f"{self.name:28} {parts}  {canary} ({len(self.latencies)})  {self.outcome}"

    def at(self, share: float) -> float:
        ordered = sorted(self.latencies) or [0.0]
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Target:
    """The broker under attack. `seconds` is how long an attack that only holds connections goes on."""

    def __init__(self, child: Child, seconds: float, longest_turn: LongestTurn) -> None:
        self.child = child
        self.longest_turn = longest_turn
        self.port = child.port
        self.seconds = seconds
        self.idle_bytes = 0
        side = Side("attacked", child.port)
        for topic, options in TOPICS.items():
            side.topic(topic, 1, **options)
        side.close()

    @property
    def cpu_s(self) -> float:
        text = Path(f"/proc/{self.child.pid}/stat").read_text(encoding="ascii")
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def peak_bytes(self) -> int:
        lines = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def forget_peak(self) -> None:
        Path(f"/proc/{self.child.pid}/clear_refs").write_text("5", encoding="ascii")


def canary(port: int, stop: Event, latencies: list[float]) -> None:
    connection = Connection(port)
    data = [{"name": CANARY, "partition_data": [{"index": 0, "records": batch(b"tweet" * 20)}]}]
    while not stop.is_set():
        started = time.perf_counter()
        answer = connection.ask("Produce", 12, acks=-1, timeout_ms=30_000, topic_data=data)
        latencies.append((time.perf_counter() - started) * 1000)
        assert answer != CLOSED
        assert answer.responses[0].partition_responses[0].error_code == 0
        stop.wait(0.005)
    connection.close()


def measure(target: Target, name: str, attack: Callable[[Target], str] | None = None) -> Cost:
    """Run the attack, by default the one of this name, with a canary beside it."""
    cost = Cost(name)
    attack = attack or ATTACKS[name]
    if isinstance(attack, Million | Deletion):
        attack.prepare(target)
    stop = Event()
    thread = Thread(target=canary, args=(target.port, stop, cost.latencies))
    thread.start()
    stop.wait(0.3)
    cost.latencies.clear()
    target.forget_peak()
    target.longest_turn.ns = 0
    idle, before = target.peak_bytes, target.cpu_s
    try:
        cost.outcome = attack(target)
    finally:
        cost.cpu_s = target.cpu_s - before
        cost.memory = max(0, target.peak_bytes - idle)
        cost.turn_ms = target.longest_turn.ns / 1e6
        stop.set()
        thread.join()
    return cost


def largest_of(target: Target, key: int, path: large.Path, port: int | None = None) -> Cost:
    """The largest request of this API: the array at `path` has as many entries as it may. `port`: of a controller."""
    count = large.largest_count(key, path)
    data = large.frame(large.request(key, path, count))
    cost = measure(target, SCHEMAS[key].name, lambda attacked: large.sent(port or attacked.port, data))
    cost.outcome += f" ({count} of {'.'.join(path)})"
    return cost


@contextmanager
def attacked(seconds: float = 5.0, *, quorum: bool = False, **options: str) -> Iterator[Target]:
    """A broker process, with `quorum` its own controller; options with '_' for '.'."""
    overrides = {name.replace("_", "."): value for name, value in options.items()}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attacked-")))
        running = Processes(folder, brokers=1, port=0, overrides=overrides, quorum=quorum)
        file = folder / "longest-turn"
        running.children[0].prefix = (sys.executable, turns.__file__, str(file))
        longest_turn = LongestTurn(file)
        stack.enter_context(running)
        yield Target(running.children[0], seconds, longest_turn)


# Attacks on connections.


def prefixes(target: Target, length: int = 100_000_000) -> str:
    """250 connections announce 100 MB and send a few bytes."""
    held = [_dial(target.port) for _ in range(250)]
    for sock in held:
        sock.sendall(struct.pack(">i", length) + b"\0" * 10)
    time.sleep(min(target.seconds, 2.0))
    return _closed(held)


def slow(target: Target) -> str:
    """500 connections send a byte a second."""
    held = [_dial(target.port) for _ in range(500)]
    for sock in held:
        sock.sendall(struct.pack(">i", 1000))
    began = time.monotonic()
    while held and time.monotonic() - began < target.seconds:
        time.sleep(1.0)
        for sock in list(held):
            try:
                sock.send(b"\0")
            except OSError:
                held.remove(sock)
                sock.close()
    outcome = f"{500 - len(held)} of 500 closed after {time.monotonic() - began:.0f} s"
    _closed(held)
    return outcome


def hoard(target: Target) -> str:
    """200 connections send half of a request of 2 MB each, and no more."""
    held = [_dial(target.port) for _ in range(200)]
    half = struct.pack(">i", 2 * MEGABYTE) + bytes(MEGABYTE)
    for sock in held:
        sock.settimeout(0.2)
        try:
            sock.sendall(half)
        except TimeoutError:
            """The broker does not read it: its budget is used up."""
    time.sleep(min(target.seconds, 2.0))
    return _closed(held)


def connects(target: Target) -> str:
    """10,000 connections, as fast as they can."""
    began = time.monotonic()
    held = [_dial(target.port) for _ in range(10_000)]
    took = time.monotonic() - began
    hello = b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff"
    held[-1].sendall(hello)
    answered = bool(held[-1].recv(4))
    return f"{took:.1f} s, the last one answered {answered}; {_closed(held)}"


def _dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def _closed(held: list[socket.socket]) -> str:
    """Close them; how many the broker had closed."""
    closed = 0
    for sock in held:
        sock.setblocking(False)
        try:
            closed += sock.recv(1) == b""
        except BlockingIOError:
            pass
        except OSError:
            closed += 1
        sock.close()
    return f"{closed} closed by the broker"


# Attacks by compressed batches.


def compressed(kind: int, content: bytes, count: int = 1) -> bytes:
    """A batch whose header says that it has so many records, with this content."""
    data = bytearray(batch((b"k", b"v"))[:HEADER_BYTES] + content)
    struct.pack_into(">i", data, 8, len(data) - 12)
    for name, value in (("last_offset_delta", count - 1), ("count", count)):
        data = bytearray(with_field(bytes(data), name, value))
    return with_field(seal(data), "attributes", kind)


def large_record(size: int) -> bytes:
    """One record with a value of zeros."""
    return record_format.encode(0, 0, b"k", bytes(size), ())


def small_records(count: int) -> bytes:
    return b"".join(record_format.encode(number, 0, b"", None, ()) for number in range(count))


def xerial(data: bytes) -> bytes:
    """Snappy in blocks as Java writes it, but each as large as it may be."""
    out = bytearray(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    for start in range(0, len(data), MEGABYTE):
        block = bytes(snappy.compress_raw(data[start : start + MEGABYTE]))
        out += struct.pack(">I", len(block)) + block
    return bytes(out)


def _produced(target: Target, topic: str, records: bytes, times: int = 3) -> str:
    """Produce the batch several times, one after the other."""
    connection = Connection(target.port)
    data = [{"name": topic, "partition_data": [{"index": 0, "records": records}]}]
    began = time.monotonic()
    codes = []
    for _ in range(times):
        answer = connection.ask("Produce", 12, acks=-1, timeout_ms=30_000, topic_data=data)
        codes.append(answer if answer == CLOSED else answer.responses[0].partition_responses[0].error_code)
    connection.close()
    return f"{len(records) // 1024} KB, {(time.monotonic() - began) / times:.2f} s each, codes {codes}"


def zstd_compacted(target: Target) -> str:
    """3 KB of zstd that inflate to 99 MiB, to a compacted topic."""
    return _produced(target, "compacted", compressed(4, zstandard.ZstdCompressor().compress(large_record(99 << 20))))


def zstd_gzipped(target: Target) -> str:
    """The same to a topic with compression.type=gzip."""
    return _produced(target, "gzipped", compressed(4, zstandard.ZstdCompressor().compress(large_record(99 << 20))))


def snappy_gzipped(target: Target) -> str:
    """5 MB of snappy that inflate to 99 MiB, to a topic with compression.type=gzip."""
    piece = os.urandom(48 * 1024)
    content = large_record(0)[:0] + _varied(piece)
    return _produced(target, "gzipped", compressed(2, xerial(content)), times=1)


def _varied(piece: bytes) -> bytes:
    value = b"".join(piece + bytes(len(piece) * 19) for _ in range((99 << 20) // (len(piece) * 20)))
    return record_format.encode(0, 0, b"k", value, ())


def gzip_members(target: Target) -> str:
    """1 MB of empty gzip members."""
    member = gzip.compress(b"")
    return _produced(target, "compacted", compressed(1, member * (1_000_000 // len(member))))


def many_records(target: Target) -> str:
    """A million records in a small batch of zstd, to a compacted topic."""
    content = zstandard.ZstdCompressor().compress(small_records(1_000_000))
    return _produced(target, "compacted", compressed(4, content, 1_000_000))


def times_of_bombs(target: Target) -> str:
    """ListOffsets by timestamp, in a plain topic with a batch that inflates to 99 MiB."""
    content = zstandard.ZstdCompressor().compress(large_record(99 << 20))
    made = _produced(target, "bombs", compressed(4, content), times=1)
    connection = Connection(target.port)
    place = {"partition_index": 0, "timestamp": 1_700_000_000_000}
    topics = [{"name": "bombs", "partitions": [place]}]
    began = time.monotonic()
    for _ in range(5):
        answer = connection.ask("ListOffsets", 7, replica_id=-1, topics=topics)
    connection.close()
    code = answer.topics[0].partitions[0].error_code
    return f"{made}; ListOffsets {(time.monotonic() - began) / 5:.2f} s each, code {code}"


def refused(target: Target) -> str:
    """10,000 frames that are refused."""
    for _ in range(10_000):
        shoot(target.port, struct.pack(">i", -1), close=False)
    return ""


ATTACKS: dict[str, Callable[[Target], str]] = {
    "prefixes": prefixes,
    "slow": slow,
    "hoard": hoard,
    "connects": connects,
    "zstd-compact": zstd_compacted,
    "zstd-gzip": zstd_gzipped,
    "snappy-gzip": snappy_gzipped,
    "gzip-members": gzip_members,
    "many-records": many_records,
    "list-offsets": times_of_bombs,
    "refused": refused,
    **LARGE,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--apis", action="store_true", help="the largest request of every API instead")
    parser.add_argument("names", nargs="*", default=list(ATTACKS))
    arguments = parser.parse_args()
    if arguments.apis:
        with attacked() as target:
            for key, path in large.cases():
                sys.stdout.write(f"{largest_of(target, key, path)}\n")
                sys.stdout.flush()
        return
    for name in arguments.names:
        with attacked(arguments.seconds) as target:
            sys.stdout.write(f"{measure(target, name)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
