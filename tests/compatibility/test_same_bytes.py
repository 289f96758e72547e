"""The same hostile bytes to Tidelog and to Apache Kafka 4.3.1: each closes the connection, or answers with the same
error codes.

The frames are those of `tidelog fuzz`, of the APIs and versions that both serve. Each is sent on a connection of its
own with a small valid request behind it, whose answer shows that the connection survived. `ALLOWED` names the
differences, with their reasons.
"""

import os
import re
import socket
import struct
from collections import Counter
from typing import NamedTuple

import pytest

from tests.compatibility.differential import brokers
from tests.processes import Processes
from tests.waiting import PATIENCE_S
from tidelog.check.fuzz import frames as drawing
from tidelog.check.fuzz.frames import Frame, framed, frames
from tidelog.errors import ErrorCode, ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages import SCHEMAS

FRAMES = int(os.environ.get("TIDELOG_SAME_BYTES", "1000"))
SEED = 77
QUORUM = (55, 80, 81)
"""Served by brokers with a metadata quorum, which this one has not: test_differential.py compares them."""
PROBE_ID = 0x5EA70000
PROBE = framed(struct.pack(">hhih", 18, 0, PROBE_ID, -1))
WIDE_VARINT = re.compile(rb"[\x80-\xff]{4}([\x08-\xff])")
"""More than 31 bits."""
CLOSED, WAITS = "closed", ("waits",)

TRANSIENT = {
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "REQUEST_TIMED_OUT", *WAITS,
}  # fmt: skip
"""They depend on when internal topics are created and loaded, and on deadlines, many of which have passed already."""


class Difference(NamedTuple):
    """Both answers contain at least these codes."""

    api: str
    ours: tuple[str, ...]
    kafkas: tuple[str, ...]
    why: str


ALLOWED = (
    Difference("Fetch", ("CLUSTER_AUTHORIZATION_FAILED",), (), "a follower may fetch on the listener of brokers only"),
    Difference(
        "ListOffsets",
        (),
        ("UNKNOWN_SERVER_ERROR",),
        "Kafka fails if a partition is there twice or its time is negative",
    ),
    Difference("DescribeConfigs", ("UNKNOWN_TOPIC_OR_PARTITION",), (), "internal topics are created at other moments"),
    Difference("DescribeConfigs", ("INVALID_TOPIC_EXCEPTION",), (), "Kafka does not see a name that is not valid"),
    Difference(
        "DescribeProducers",
        ("UNKNOWN_TOPIC_OR_PARTITION",),
        ("INVALID_TOPIC_EXCEPTION",),
        "of a name that is not valid Kafka says so",
    ),
    Difference(
        "InitProducerId",
        ("INVALID_REQUEST",),
        ("INVALID_TRANSACTION_TIMEOUT",),
        "a negative producer id other than -1 is refused first",
    ),
)


def outcome(address, frame):
    """`closed`, `waits`, or the error codes of the answer."""
    with socket.create_connection(address, PATIENCE_S) as sock:
        sock.settimeout(2.0)
        answers, data = [], b""
        try:
            sock.sendall(frame.data + PROBE)
            while True:
                while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4]):
                    end = 4 + int.from_bytes(data[:4])
                    answer, data = data[4:end], data[end:]
                    if int.from_bytes(answer[:4]) == PROBE_ID:
                        return codes_of(frame, answers)
                    answers.append(answer)
                if not (more := sock.recv(1 << 20)):
                    return CLOSED
                data += more
        except TimeoutError:
            return WAITS
        except OSError:
            return CLOSED


def codes_of(frame, answers):
    if not answers:
        return ()
    key, version = struct.unpack_from(">hh", frame.data, 4)
    try:
        _, response = codec.decode_response(key, version, answers[0])
    except (ProtocolViolation, KeyError, AssertionError):
        return ("undecodable",)
    return tuple(sorted({ErrorCode(code).name for code in found_in(response) if code}))


def found_in(message):
    """Every error code in a response."""
    if isinstance(message, list):
        for each in message:
            yield from found_in(each)
    for name in getattr(type(message), "__slots__", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        else:
            yield from found_in(value)


@pytest.fixture(scope="module")
def kafka(kafka_libs, kafka_tool, tmp_path_factory):
    """One of its own: some of the frames are valid, and delete topics or change options."""
    with brokers.kafka(tmp_path_factory.mktemp("same") / "kafka", kafka_libs, tool=kafka_tool) as port:
        yield "127.0.0.1", port


@pytest.fixture
def without_quorum(monkeypatch):
    """Frames of the APIs that every broker serves."""
    apis = {key: api for key, api in drawing.APIS.items() if key not in QUORUM}
    monkeypatch.setattr(drawing, "APIS", apis)
    monkeypatch.setattr(drawing, "CLIENTS", [target for target in drawing.CLIENTS if target[0] in apis])


@pytest.mark.usefixtures("without_quorum")
def test_the_same_bytes_get_the_same_codes(kafka, tmp_path):
    ranges = served(kafka)
    compared, different = Counter(), []
    with Processes(tmp_path, brokers=1, port=0) as running:
        tidelog = "127.0.0.1", running.children[0].port
        for frame in frames(SEED, FRAMES):
            low, high = ranges.get(frame.key, (0, -1))
            if not low <= frame.version <= high:
                continue
            ours, kafkas = outcome(tidelog, frame), outcome(kafka, frame)
            compared[CLOSED if kafkas == CLOSED else "answered"] += 1
            if ours != kafkas and not is_allowed(frame, ours, kafkas):
                different.append(f"{frame.name}: {ours}, Kafka: {kafkas}; {frame.data.hex()}")
        assert running.children[0].process.poll() is None
    assert not different, "\n".join(different)
    assert min(compared[CLOSED], compared["answered"]) > FRAMES // 5, "neither all are closed nor all are answered"


def test_an_allowed_difference_is_one_of_its_api_and_codes():
    frame = Frame(0, 11, "valid", PROBE)
    assert not is_allowed(frame, CLOSED, ("INVALID_REQUEST",))
    assert is_allowed(frame, (), ("COORDINATOR_LOAD_IN_PROGRESS",))
    assert not is_allowed(frame, (), CLOSED)
    assert not is_allowed(frame, ("CLUSTER_AUTHORIZATION_FAILED",), ())
    assert is_allowed(Frame(1, 11, "valid", b""), ("CLUSTER_AUTHORIZATION_FAILED",), ())
    assert not is_allowed(frame, ("INVALID_REQUEST",), ("UNKNOWN_TOPIC_OR_PARTITION",))


def is_allowed(frame, ours, kafkas):
    api = SCHEMAS[frame.key].name
    if ours == CLOSED:
        return has_loose_varint(frame)
    if TRANSIENT.intersection(kafkas if kafkas != CLOSED else ()) or TRANSIENT.intersection(ours):
        return True
    return any(api == each.api and set(each.ours) <= set(ours) and set(each.kafkas) <= set(kafkas) for each in ALLOWED)


def has_loose_varint(frame):
    """Whether Tidelog refuses a number that Kafka takes: its counts and lengths have 32 bits and a sign, so that what is
    beyond 2^31 is none, and the bits of a varint that are too many are lost."""
    try:
        codec.decode_request(frame.data[4:])
    except ProtocolViolation:
        return WIDE_VARINT.search(frame.data) is not None
    return False


def served(address):
    with socket.create_connection(address, PATIENCE_S) as sock:
        sock.sendall(PROBE)
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
            data += sock.recv(1 << 16)
    _, response = codec.decode_response(18, 0, data[4:])
    return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
