"""The largest requests: of every API, and those that once held a broker for seconds."""

import socket
import struct
import time
from collections import Counter
from typing import Any, Protocol

from tests.node import largest
from tests.waiting import wait_for
from tidelog.api.parts import MOST_ENTRIES, MOST_OF, MOST_WHOLE, splitting
from tidelog.api.registry import APIS, CONTROLLER_APIS
from tidelog.errors import ProtocolViolation
from tidelog.wire import codec
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

FETCH, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, DESCRIBE_CONFIGS = 1, 3, 8, 10, 32
PRODUCE = 0
VALID_ACL = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "principal": "User:x",
    "operation": 3,
    "permission_type": 3,
}
PROBE = 1000
HIGHEST = {key: api.high for key, api in {**CONTROLLER_APIS, **APIS}.items()}
"""The version that is served, by API key."""
ANSWER_S = 120.0
TIMEOUT_MS = 300_000

Path = tuple[str, ...]


class Attacked(Protocol):
    @property
    def port(self) -> int: ...


def cases(*, of_controllers: bool = False) -> list[tuple[int, Path]]:
    """Of every API that clients of these brokers may use, or that only the controllers of a quorum serve: the array that
    is split, or the one that is within most others."""
    own = {key: api for key, api in CONTROLLER_APIS.items() if api is not APIS.get(key)}  # brokers serve the others
    of_clients = {key: api for key, api in APIS.items() if api.caller not in ("broker", "quorum")}
    served = dict(sorted((own if of_controllers else of_clients).items()))
    paths = {key: list(largest.arrays(key, api.high)) for key, api in served.items()}
    return [
        (key, next((path for path in found if len(path) == _levels(key, path)), max(found, key=len)))
        for key, found in paths.items()
        if found
    ]


def request(key: int, path: Path, count: int, *, distinct: bool = True) -> Any:
    made = largest.request(key, HIGHEST[key], path, count, distinct=distinct)
    if key == METADATA:
        made.allow_auto_topic_creation = False
    elif key == PRODUCE:
        made.acks = 1
    for acl in (*getattr(made, "creations", ()), *getattr(made, "filters", ())):
        _make_valid(acl)
    return made


def _make_valid(acl: Any) -> None:
    """Of a topic, literal, for READ, ALLOW: with an unknown code the connection would be closed."""
    for name, value in VALID_ACL.items():
        if hasattr(acl, name):
            setattr(acl, name, value)


def frame(made: Any) -> bytes:
    """With its length."""
    key = made.__key__
    return b"".join(map(bytes, codec.encode_request(key, HIGHEST[key], 7, "large", made)))


def largest_count(key: int, path: Path) -> int:
    """How many entries the array may have: others may come with each, and count, too."""
    made = request(key, path, PROBE)
    entries = _entries(frame(made)[4:])
    try:
        is_whole = splitting(made, entries) is None and key != FETCH
    except ProtocolViolation:
        is_whole = True
    most = MOST_OF.get(
        key, MOST_WHOLE if is_whole or (len(path) > 1 and 0 < _levels(key, path) < len(path)) else MOST_ENTRIES
    )
    return most * PROBE // entries - len(path) - 1


def _levels(key: int, path: Path) -> int:
    """How many arrays within each other are split."""
    split = splitting(request(key, path, 1), 1)
    levels = 0
    while split is not None:
        levels += 1
        split = split.inner
    return levels


def _entries(body: bytes) -> int:
    steps = codec.request_in_steps(body, 10 * MOST_ENTRIES)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return int(done.value[2])


def sent(port: int, data: bytes) -> str:
    """Send it on a new connection, and say what comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as sock:
        try:
            sock.sendall(data)
            start = _exactly(sock, 4)
            if len(start) < 4:
                return "closed"
            (left,) = struct.unpack(">i", start)
            size = left
            while left and (data := sock.recv(min(left, 1 << 20))):
                left -= len(data)
        except (ConnectionResetError, BrokenPipeError):
            return "closed"
        return f"answered with {size // 1024} KB" if not left else "cut off"


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := sock.recv(size - len(data))):
        data += more
    return data


# What the issue names: each with a million entries, which is refused, and with as many as may be.


class Million:
    """What it sends is made before the canary sings: that takes seconds."""

    def __init__(self, key: int, path: Path, *, distinct: bool = True) -> None:
        self._made = key, path, distinct
        self._frames: dict[int, bytes] = {}

    def prepare(self, _: Attacked) -> None:
        key, path, distinct = self._made
        for count in (1_000_000, largest_count(key, path)):
            self._frames[count] = frame(request(key, path, count, distinct=distinct))

    def __call__(self, target: Attacked) -> str:
        outcomes = [(count, len(data), sent(target.port, data)) for count, data in self._frames.items()]
        return "; ".join(f"{count} in {size >> 10} KB: {outcome}" for count, size, outcome in outcomes)


class Creation:
    """As many topics, or partitions of one topic, as one request may create."""

    def __init__(self, topics: int, partitions: int) -> None:
        self.topics = topics
        self.partitions = partitions

    def __call__(self, target: Attacked) -> str:
        made = [CreatableTopic(name=name, num_partitions=self.partitions, replication_factor=1) for name in self.names]
        outcome = _answered(target, CreateTopicsRequest(topics=made, timeout_ms=TIMEOUT_MS), "topics")
        # The answer comes after two seconds at the latest; a topic is known when all of its replicas are there.
        last = MetadataRequest(topics=[MetadataRequestTopic(name=self.names[-1])], allow_auto_topic_creation=False)
        wait_for(lambda: "codes {0: 1}" in _answered(target, last, "topics"), "all replicas", TIMEOUT_MS / 1000)
        return outcome

    @property
    def names(self) -> list[str]:
        return [f"many-{number}" for number in range(self.topics)]


class Deletion:
    """Of all of them."""

    def __init__(self, topics: int, partitions: int) -> None:
        self._creation = Creation(topics, partitions)

    def prepare(self, target: Attacked) -> None:
        self._creation(target)

    def __call__(self, target: Attacked) -> str:
        gone = [DeleteTopicState(name=name) for name in self._creation.names]
        return _answered(target, DeleteTopicsRequest(topics=gone, timeout_ms=TIMEOUT_MS), "responses")


def _answered(target: Attacked, request: Any, results: str) -> str:
    """Send the request, and say how long it took and with which codes it was answered."""
    key = request.__key__
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", target.port), timeout=2 * TIMEOUT_MS / 1000) as sock:
        sock.sendall(frame(request))
        (size,) = struct.unpack(">i", _exactly(sock, 4))
        _, answer = codec.decode_response(key, APIS[key].high, _exactly(sock, size))
    codes = Counter(each.error_code for each in getattr(answer, results))
    return f"{time.monotonic() - began:.1f} s, codes {dict(codes)}"


def describe_configs(target: Attacked) -> str:
    """One topic, as often as may be."""
    made = request(DESCRIBE_CONFIGS, ("resources",), MOST_OF[DESCRIBE_CONFIGS], distinct=False)
    for resource in made.resources:
        resource.resource_name = "canary"
        resource.configuration_keys = None
    return sent(target.port, frame(made))


def unread(target: Attacked) -> str:
    """4 connections send 25 requests of 10 KB each for the options of a topic, and never read."""
    made = request(DESCRIBE_CONFIGS, ("resources",), 600, distinct=False)
    for resource in made.resources:
        resource.resource_name = "canary"
        resource.configuration_keys = None
    return _unread(target, frame(made))


def unread_keys(target: Attacked) -> str:
    """The same for coordinators."""
    return _unread(target, frame(request(FIND_COORDINATOR, ("coordinator_keys",), 1700)))


def _unread(target: Attacked, data: bytes) -> str:
    held = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(4)]
    for sock in held:
        sock.sendall(data * 25)
    last = socket.create_connection(("127.0.0.1", target.port), timeout=ANSWER_S)
    last.close()
    held[0].settimeout(ANSWER_S)
    for _ in range(2):
        held[0].recv(1 << 16)  # they are served
    for sock in held:
        sock.close()
    return f"{len(data) >> 10} KB each"


def pattern(target: Attacked) -> str:
    """A heartbeat with a pattern of 27 KB, and one with the slowest that may be."""
    outcomes = []
    for text in ("(.*.*)" * 4500, "(.*.*)" * 333):
        made = largest.request(68, APIS[68].high, ("subscribed_topic_names",), 0, distinct=True)
        made.group_id, made.member_id, made.member_epoch, made.rebalance_timeout_ms = "patterns", "m", 0, 1000
        made.subscribed_topic_names, made.topic_partitions, made.subscribed_topic_regex = None, [], text
        outcomes.append(f"{len(text)} characters: {sent(target.port, frame(made))}")
    return "; ".join(outcomes)


LARGE = {
    "fetch": Million(FETCH, ("topics", "partitions")),
    "find-coordinator": Million(FIND_COORDINATOR, ("coordinator_keys",)),
    "offset-commit": Million(OFFSET_COMMIT, ("topics", "partitions"), distinct=False),
    "offset-commits": Million(OFFSET_COMMIT, ("topics", "partitions")),
    "transactions": Million(65, ("transactional_ids",)),
    "offsets": Million(2, ("topics", "partitions")),
    "metadata": Million(METADATA, ("topics",)),
    "create-topics": Creation(10_000, 1),
    "create-partitions": Creation(1, 10_000),
    "delete-topics": Deletion(10_000, 1),
    "delete-partitions": Deletion(1, 10_000),
    "describe-configs": describe_configs,
    "describe-groups": Million(15, ("groups",)),
    "delete-groups": Million(42, ("groups_names",)),
    "leave-group": Million(13, ("members",)),
    "add-partitions": Million(24, ("transactions", "topics", "partitions")),
    "reassignments": Million(45, ("topics", "partitions")),
    "alter-configs": Million(44, ("resources",)),
    "pattern": pattern,
    "unread": unread,
    "unread-keys": unread_keys,
}
