"""Reads records of partitions within a budget: browsing from any place, backwards from the end, search and tail.

Fetches are an admin's requests, so that control records are seen, and batches are decoded on a thread.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidelog.client.admin import Leader
from tidelog.client.fetcher import AbortedFilter
from tidelog.client.results import code_of
from tidelog.errors import ApiError
from tidelog.model import TopicPartition
from tidelog.shell.async_clients import AsyncAdmin
from tidelog.wire import records
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tidelog.wire.records import BatchHeader, Record

NEWEST_BY_NAME = 12
FETCH_BYTES = 1024 * 1024
ANSWER_MS = 15_000
MOST_BATCH_BYTES = 64 * 1024 * 1024
"""What a compressed batch may decompress to."""
PIECE_BYTES = 16 * 1024 * 1024
"""A piece ends with the batch that reaches this: a fetch of 1 MB may hold hundreds of batches of 64 MB."""
FIRST_WINDOW = 2
"""How many records from the end are read first: they may be large."""


class Read(NamedTuple):
    """One record, and the batch that it is in."""

    partition: int
    batch: BatchHeader
    record: Record


class Piece(NamedTuple):
    """What one fetch returned: the records from the requested offset on, where to go on, and how many bytes that was,
    decompressed."""

    found: list[Read]
    next_offset: int
    high_watermark: int
    size: int


@dataclass(slots=True)
class Budget:
    """What a request of a page may read. `spent_by` names the limit that ended it."""

    most_records: int
    most_bytes: int
    seconds: float
    records: int = 0
    bytes: int = 0
    began: float = 0.0

    def __post_init__(self) -> None:
        self.began = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def spent_by(self) -> str | None:
        if self.bytes >= self.most_bytes:
            return "bytes"
        if self.elapsed >= self.seconds:
            return "time"
        return "records" if self.records >= self.most_records else None

    def spend(self, piece: Piece) -> None:
        self.bytes += piece.size
        self.records += len(piece.found)


async def fetch(admin: AsyncAdmin, name: TopicPartition, offset: int, *, committed: bool, wait_ms: int = 0) -> Piece:
    """One fetch from the leader. ApiError with the broker's code if it refuses."""
    partition = FetchPartition(partition=name.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1 if wait_ms else 0,
        max_bytes=FETCH_BYTES,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=name.topic, partitions=[partition])],
    )
    response = await admin.ask(request, Leader(*name), newest=NEWEST_BY_NAME, timeout_ms=ANSWER_MS)
    if response.error_code or not response.responses:
        raise ApiError(code_of(response.error_code))
    data = response.responses[0].partitions[0]
    if data.error_code:
        raise ApiError(code_of(data.error_code), f"{name} at offset {offset}")
    return await asyncio.to_thread(_decoded, name.partition, offset, data, committed)


def _decoded(partition: int, offset: int, data: PartitionData, committed: bool) -> Piece:
    raw = data.records if isinstance(data.records, bytes) else b""
    is_aborted = AbortedFilter(data.aborted_transactions or (), int(committed))
    found: list[Read] = []
    following, size = offset, 0
    for batch in records.batches(raw):
        if size >= PIECE_BYTES:
            break
        following = max(following, batch.next_offset)
        size += batch.length
        if is_aborted(raw, batch):
            continue
        payload = records.payload_of(raw, batch, limit=MOST_BATCH_BYTES)
        size += max(0, len(payload) - batch.length)
        content = records.decoded(payload, batch)
        found += (Read(partition, batch, record) for record in content if record.offset >= offset)
    return Piece(found, following, data.high_watermark, size)


async def forwards(
    admin: AsyncAdmin,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    committed: bool,
    budget: Budget,
) -> AsyncIterator[Piece]:
    """The records from the starts up to the ends, a fetch of each partition in turn, until the budget is spent."""
    positions = dict(starts)
    while positions and budget.spent_by() is None:
        for partition in list(positions):
            if positions[partition] >= ends[partition]:
                del positions[partition]
                continue
            piece = await fetch(admin, TopicPartition(topic, partition), positions[partition], committed=committed)
            within = [each for each in piece.found if each.record.offset < ends[partition]]
            piece = piece._replace(found=within)
            is_stuck = piece.next_offset == positions[partition]
            positions[partition] = ends[partition] if is_stuck else piece.next_offset
            budget.spend(piece)
            yield piece
            if budget.spent_by() is not None:
                return


async def backwards(
    admin: AsyncAdmin,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    *,
    committed: bool,
    budget: Budget,
) -> tuple[list[Read], dict[int, int]]:
    """The last records below the ends, newest first, and below which offsets older ones are.

    The windows before the ends double, so that a few large records are not too many.
    """
    tops, window, found = dict(ends), FIRST_WINDOW, []
    left = {partition for partition in ends if ends[partition] > starts[partition]}
    while left and budget.spent_by() not in ("bytes", "time"):
        for partition in sorted(left):
            bottom = max(starts[partition], tops[partition] - window)
            share = Budget(window, budget.most_bytes, budget.seconds)
            async for piece in forwards(
                admin, topic, {partition: bottom}, {partition: tops[partition]}, committed=committed, budget=share
            ):
                found += piece.found
                budget.spend(piece)
            tops[partition] = bottom
            if budget.spent_by() in ("bytes", "time"):
                break
        left = _may_have_newer(found, starts, tops, budget.most_records)
        window = min(2 * window, budget.most_records)
    taken = newest_first(found)[: budget.most_records]
    following = {p: ends[p] if any(each.partition == p for each in found) else tops[p] for p in ends}
    for each in taken:
        following[each.partition] = min(following[each.partition], each.record.offset)
    return taken, following


def _may_have_newer(found: Sequence[Read], starts: Mapping[int, int], tops: Mapping[int, int], most: int) -> set[int]:
    """Partitions whose records before those found may belong to the `most` newest ones."""
    unread = {partition for partition in tops if tops[partition] > starts[partition]}
    if len(found) < most:
        return unread
    cut = newest_first(found)[most - 1].record.timestamp
    oldest: dict[int, int] = {}
    for each in found:
        oldest[each.partition] = min(oldest.get(each.partition, each.record.timestamp), each.record.timestamp)
    return {partition for partition in unread if oldest.get(partition, cut) > cut}


def newest_first(found: Sequence[Read]) -> list[Read]:
    return sorted(found, key=lambda each: (each.record.timestamp, each.record.offset, each.partition), reverse=True)


def merged(found: Sequence[Read], starts: Mapping[int, int], most: int) -> tuple[list[Read], dict[int, int]]:
    """The first records by time, without changing the order within a partition, and where to go on."""
    by_partition: dict[int, list[Read]] = {}
    for each in found:
        by_partition.setdefault(each.partition, []).append(each)
    taken: list[Read] = []
    following = dict(starts)
    for each in _by_time(by_partition):
        if len(taken) == most:
            break
        taken.append(each)
        following[each.partition] = each.record.offset + 1
    return taken, following


def _by_time(by_partition: Mapping[int, list[Read]]) -> Iterator[Read]:
    import heapq

    ordered = [sorted(own, key=lambda each: each.record.offset) for own in by_partition.values()]
    yield from heapq.merge(*ordered, key=lambda each: each.record.timestamp)
