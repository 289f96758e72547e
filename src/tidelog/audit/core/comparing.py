"""Compares the replicas of one partition: first by chunks, then by the batches of chunks that differ."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from tidelog.audit.core.merging import ReplicaLog
from tidelog.audit.core.scanning import ROW, ROW_BYTES, Chunk

Rows = Mapping[int, Mapping[int, bytes]]
"""broker → chunk → the concatenated headers of its batches."""


class Difference(NamedTuple):
    """Two replicas hold different batches in [start, end); `epochs` are those of the first batch of each, -1 where a
    replica has none there."""

    one: int
    other: int
    start: int
    end: int
    epochs: tuple[int, int]


Chunks = Mapping[int, Chunk]


def suspicious(logs: Sequence[ReplicaLog], width: int, chunks: Mapping[int, Chunks] | None = None) -> list[int]:
    """The chunks that differ between the replicas that reach into them, including chunks in which one of them begins or
    ends. `chunks`: broker → chunks, if of another width than those of the logs."""
    held = {log.broker: log.chunks for log in logs} if chunks is None else chunks
    found = []
    for number in sorted({number for log in logs for number in held.get(log.broker, ())}):
        low, high = number * width, (number + 1) * width
        reaching = [log for log in logs if log.start < high and log.end > low and not log.hides_all(low, high)]
        if len({held.get(log.broker, {}).get(number) for log in reaching}) > 1:
            found.append(number)
    return found


def differences(logs: Sequence[ReplicaLog], rows: Rows, numbers: Sequence[int]) -> list[Difference]:
    """The ranges in which two replicas differ, within what both hold, by the batches of these chunks."""
    parsed = {log.broker: _parsed(rows.get(log.broker, {}), numbers) for log in logs}
    found: list[Difference] = []
    for one, other in combinations(logs, 2):
        if not one.is_empty and not other.is_empty:
            found += _between(one, other, parsed[one.broker], parsed[other.broker])
    return found


class _Batch(NamedTuple):
    raw: bytes
    end: int
    epoch: int


def _parsed(chunks: Mapping[int, bytes], numbers: Sequence[int]) -> dict[int, _Batch]:
    found = {}
    for number in numbers:
        raw = chunks.get(number, b"")
        for at in range(0, len(raw), ROW_BYTES):
            row = raw[at : at + ROW_BYTES]
            base, _, epoch, _, _, _, delta = ROW.unpack(row)
            found[base] = _Batch(row, base + delta + 1, epoch)
    return found


def _between(
    one: ReplicaLog, other: ReplicaLog, ours: Mapping[int, _Batch], theirs: Mapping[int, _Batch]
) -> list[Difference]:
    start, end = max(one.start, other.start), min(one.end, other.end)
    found: list[Difference] = []
    running = False
    for base in sorted({*ours, *theirs}):
        if not start <= base < end or one.hides(base) or other.hides(base):
            continue
        mine, its = ours.get(base), theirs.get(base)
        if mine is not None and its is not None and mine.raw == its.raw:
            running = False
            continue
        after = max(batch.end for batch in (mine, its) if batch is not None)
        if running and base <= found[-1].end:  # the chunks between those that differ are equal
            found[-1] = found[-1]._replace(end=max(found[-1].end, min(after, end)))
        else:
            epochs = (mine.epoch if mine else -1, its.epoch if its else -1)
            found.append(Difference(one.broker, other.broker, base, min(after, end), epochs))
            running = True
    return found


def agree_again(one: ReplicaLog, other: ReplicaLog, start: int) -> int:
    """The first common offset at or after `start` at which both logs have the same epoch; -1 if there is none. By log
    matching both must hold the same bytes below it."""
    end = min(one.end, other.end)
    bounds = sorted({start, *(first for log in (one, other) for _, first in log.epochs if start < first < end)})
    return next((o for o in bounds if o < end and one.epoch_at(o) == other.epoch_at(o)), -1)
