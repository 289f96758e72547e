"""Hostile bytes on a live socket. Invariant: whatever arrives, the connection is answered or closed, within its limits in
memory; the broker lives, and the canary's requests on another connection are answered.
"""

import random
import socket
import struct

import pytest

from tests.compatibility.differential.wire import CLOSED, Connection, build
from tests.fuzz.hostile import framed, header, resident_bytes, shoot, spoiled
from tidelog.api.registry import APIS
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

SERVED = [api for api in APIS.values() if api.caller in {"anyone", "sasl"}]
MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("seed", range(20))
def test_garbage(broker, seed):
    chance = random.Random(seed)
    assert shoot(broker.port, chance.randbytes(chance.choice([1, 3, 4, 5, 17, 100, 5_000, 200_000]))) == CLOSED


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 1, 7, 2_000_001, 2**31 - 1])
def test_lengths_that_cannot_be(broker, length):
    assert shoot(broker.port, struct.pack(">i", length) + b"\0" * 64, close=False) == CLOSED


def test_huge_lengths_are_refused_before_memory_is_taken(broker):
    before = resident_bytes(broker)
    held = [Connection(broker.port) for _ in range(50)]
    for connection in held:
        connection.socket.sendall(struct.pack(">i", 2_000_000) + b"\0" * 10)
    refused = [shoot(broker.port, struct.pack(">i", 2**31 - 1), close=False) for _ in range(50)]
    assert set(refused) == {CLOSED}
    assert resident_bytes(broker) - before < 30 * MEGABYTE  # 50 announced frames within the limit would be 100 MB
    for connection in held:
        connection.close()


@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 27, 56, 92, 999, 32767, -32768])
def test_keys_that_are_not_served(broker, key):
    assert shoot(broker.port, framed(header(key, 0) + b"\0" * 20), close=False) == CLOSED


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_versions_that_are_not_served(broker, api):
    for version in {-1, api.low - 1, api.high + 1, 32767}:
        answer = shoot(broker.port, framed(header(api.key, version, flexible=True) + b"\0" * 20), close=False)
        if api.name == "ApiVersions":
            assert isinstance(answer, bytes)
            assert answer[4:10] == struct.pack(">ih", 7, 35)
        else:
            assert answer == CLOSED


@pytest.mark.parametrize("api", SERVED, ids=lambda api: api.name)
def test_requests_cut_short_and_with_bytes_changed(broker, api):
    """Each is answered or closes its connection; a request that waits for more is ended by our end of the stream."""
    for body in spoiled(api):
        shoot(broker.port, framed(body))


COUNTS = {
    "an array longer than its frame": (3, 1, struct.pack(">i", 2**31 - 1)),
    "an array of a negative length": (3, 1, struct.pack(">i", -2)),
    "a compact array longer than its frame": (3, 13, b"\xff\xff\xff\xff\x0f"),
    "a variable length without end": (3, 13, b"\xff" * 20),
    "more tagged fields than bytes": (60, 0, b"\x00\xff\xff\xff\xff\x0f"),
    "a tagged field longer than its frame": (60, 0, b"\x00\x01\x00\xff\xff\xff\xff\x07"),
    "a string longer than its frame": (10, 0, struct.pack(">h", 32767) + b"x"),
    "a string of a negative length": (10, 0, struct.pack(">h", -5)),
    "a string that is no UTF-8": (10, 0, struct.pack(">h", 2) + b"\xff\xfe"),
}


@pytest.mark.parametrize("case", COUNTS)
def test_counts_are_checked_before_anything_is_allocated(broker, case):
    """CVE-2026-111108, -111115: a few bytes that announce gigabytes."""
    key, version, body = COUNTS[case]
    before = resident_bytes(broker)
    for _ in range(20):
        shoot(broker.port, framed(header(key, version, flexible=SCHEMAS[key].is_flexible(version)) + body))
    assert resident_bytes(broker) - before < 16 * MEGABYTE


def test_a_header_with_a_client_id_beyond_its_frame(broker):
    for length in (5, 1000, 32767):
        assert shoot(broker.port, framed(struct.pack(">hhih", 18, 0, 7, length) + b"abc")) == CLOSED


def test_a_frame_that_arrives_byte_by_byte_is_answered(broker):
    connection = Connection(broker.port)
    for byte in framed(header(18, 0)):
        connection.socket.sendall(bytes([byte]))
    assert isinstance(connection.frame(), bytes)
    connection.close()


def test_good_requests_before_a_bad_one_are_answered_in_order(broker):
    connection = Connection(broker.port)
    good = b"".join(framed(struct.pack(">hhih", 18, 0, number, -1)) for number in range(20))
    connection.socket.sendall(good + framed(header(999, 0)))
    for number in range(20):
        answer = connection.frame()
        assert isinstance(answer, bytes)
        assert answer[:4] == struct.pack(">i", number)
    assert connection.frame() == CLOSED
    connection.close()


def test_connections_that_say_nothing_or_leave_early(broker, canary):
    """Hundreds of connections, idle, half a frame in, or gone while their answer is on its way."""
    held = [Connection(broker.port) for _ in range(300)]
    for number, connection in enumerate(held):
        if number % 3 == 1:
            connection.socket.sendall(b"\0\0")
        elif number % 3 == 2:
            connection.send("Fetch", 12, max_wait_ms=60_000, min_bytes=1, max_bytes=100,
                            topics=[{"topic": "canary", "partitions": [{"partition": 0, "fetch_offset": 10**6}]}])  # fmt: skip
            connection.send("Metadata", 12, topics=None)
    canary.sings()
    for connection in held:
        connection.close()


def test_a_reader_that_never_reads_is_paused_within_bounds(broker, canary):
    """Requests of a few bytes whose long answers nobody takes: the broker stops reading, and its memory is bounded."""
    before = resident_bytes(broker)
    resource = {"resource_type": 4, "resource_name": "0", "configuration_keys": None}
    values = {"resources": [resource], "include_synonyms": True, "include_documentation": True}
    request = build(SCHEMAS[32].request, 4, values)
    many = b"".join(map(bytes, codec.encode_request(32, 4, 7, None, request))) * 1000
    with socket.create_connection(("127.0.0.1", broker.port), timeout=2) as sock:
        with pytest.raises(TimeoutError):
            sock.sendall(many * 200)
        canary.sings()
        assert resident_bytes(broker) - before < 64 * MEGABYTE
