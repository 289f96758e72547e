"""Fetches the log of a replica from its broker, leader or follower, as a consumer would: up to its high watermark
(KIP-392)."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.audit.core.scanning import NotABatch, Scanner
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tidelog.wire.records import HEADER_BYTES

STEP_BYTES = 8 * 1024 * 1024
NO_PROGRESS_TIMEOUT_S = 20.0
RETRY_S = 0.2
ANSWER_MS = 30_000

_RETRIABLE = frozenset(
    {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH}
)
"""The broker is repairing a batch, or has not opened the replica yet."""

_admins: dict[tuple[str, tuple[tuple[str, object], ...]], Admin] = {}
"""The admin clients that this process keeps: a worker runs many tasks."""


class NotReadable(Exception):
    """The broker does not serve the replica."""


class NoAnswer(NotReadable):
    """The broker does not answer at all."""


@dataclass(frozen=True, slots=True)
class Source:
    """The broker of a replica; `options` are those of an admin client."""

    bootstrap: str
    broker: int
    topic_id: bytes
    options: Mapping[str, object] = field(default_factory=dict, repr=False)  # with a password, maybe


def admin(source: Source) -> Admin:
    """A client that this process keeps."""
    key = (source.bootstrap, tuple(sorted(source.options.items())))
    if key not in _admins:
        _admins[key] = Admin(source.bootstrap, **source.options)
    return _admins[key]


def close() -> None:
    """Close the clients that this process keeps."""
    while _admins:
        _admins.popitem()[1].close()


def read(source: Source, name: TopicPartition, start: int, end: int, scanner: Scanner) -> None:
    """Feed the batches that begin in [start, end). NotReadable if the broker does not serve them in time."""
    position, until = start, time.monotonic() + NO_PROGRESS_TIMEOUT_S
    while position < end:
        data = fetch(source, name, position)
        code = code_of(data.error_code)
        if code in _RETRIABLE and time.monotonic() < until:
            time.sleep(RETRY_S)
            continue
        if code:
            raise NotReadable(f"broker {source.broker} answers {code.name} at offset {position}")
        before = position
        position = _feed(data, scanner, position)
        if position > before:
            until = time.monotonic() + NO_PROGRESS_TIMEOUT_S
        elif time.monotonic() >= until:
            raise NotReadable(f"broker {source.broker} returns no batch at offset {position}, below {end}")
        else:
            time.sleep(RETRY_S)


def _feed(data: PartitionData, scanner: Scanner, position: int) -> int:
    """Feed the batches; return the offset to continue at. Batches that begin before `position` were already read, or
    belong to another piece."""
    content = data.records
    if content is None or len(content) < HEADER_BYTES:
        return position
    assert isinstance(content, bytes | bytearray | memoryview)
    try:
        scanner.feed(content)
    except NotABatch as where:
        raise NotReadable(f"the response at offset {position} has no valid batch at byte {where.used}") from None
    return max(position, scanner.passed)


def fetch(
    source: Source, name: TopicPartition, offset: int, *, max_bytes: int = STEP_BYTES, timeout_ms: int = ANSWER_MS
) -> PartitionData:
    """Fetch once from the broker of the replica. NotReadable if it refuses, NoAnswer if it does not answer in time."""
    partition = FetchPartition(partition=name.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    topic = FetchTopic(topic=name.topic, topic_id=source.topic_id, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=max_bytes, topics=[topic])
    try:
        response = admin(source).ask(request, source.broker, timeout_ms=timeout_ms)
    except ApiError as error:
        raise NoAnswer(f"broker {source.broker} does not answer ({error.code.name})") from None
    if response.error_code or not response.responses:
        raise NotReadable(f"broker {source.broker} refuses: {code_of(response.error_code).name}")
    found = response.responses[0].partitions[0]
    assert isinstance(found, PartitionData)
    return found
