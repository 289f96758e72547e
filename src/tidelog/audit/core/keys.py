"""Compares compacted topics by the last value of each key: replicas are compacted at different times, so their batches
differ.

A tombstone counts as no record, and so does a record of an aborted transaction. A replica that ends before another's
record of a key may still have an older one.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple
from zlib import crc32

from tidelog.audit.core.merging import ReplicaLog
from tidelog.checksums import crc32c
from tidelog.errors import ApiError
from tidelog.wire.record_format import Outlines, outline
from tidelog.wire.records import NO_PRODUCER_ID, header, payload_of, read_marker, records

BUCKETS = 4096
MASK = 2**64 - 1
AT_ONCE = 1_000
_SHOWN = 40


class Last(NamedTuple):
    """The last record of a key; `record` is its checksum, `is_tombstone` is True for a tombstone."""

    offset: int
    record: int
    is_tombstone: bool


class LastValueDigests(NamedTuple):
    """The last records of some keys, and the records of transactions that were open at the end of the read."""

    lasts: dict[bytes, Last]
    pending: dict[bytes, set[int]]
    """key → offsets."""


class LastValues:
    """Pass `on_batch` to a `Scanner` over a whole replica. `seen` gets digests at the offsets in `cuts`, ascending."""

    def __init__(self, cuts: Sequence[int] = ()) -> None:
        self.keys: dict[bytes, Last] = {}
        self.seen: dict[int, list[int]] = {}
        self._cuts = list(cuts)
        self._open: dict[int, dict[bytes, Last]] = {}

    def on_batch(self, batch: memoryview, base: int, _end: int) -> None:
        while self._cuts and base >= self._cuts[0]:
            self.cut()
        head = header(batch)
        if head.is_control:
            self._ended(batch)
            return
        target = self.keys
        if head.is_transactional and head.producer_id != NO_PRODUCER_ID:
            target = self._open.setdefault(head.producer_id, {})
        try:
            payload = payload_of(batch, head)
            for each in outline(payload, head.count, AT_ONCE):
                _enter(target, payload, each, head.base_offset)
        except ApiError:
            return  # the scanner reports damaged batches

    def _ended(self, batch: memoryview) -> None:
        head = header(batch)
        written = self._open.pop(head.producer_id, {})
        marker = next((read_marker(record) for record in records(batch, head)), None)
        if marker is None or not marker.committed:
            return
        for key, last in written.items():
            before = self.keys.get(key)
            if before is None or before.offset < last.offset:
                self.keys[key] = last

    def cut(self) -> None:
        """The state now is the state below the next cut."""
        self.seen[self._cuts.pop(0)] = self.digests()

    def finish(self) -> dict[int, list[int]]:
        """cut → digests; call it after the last batch."""
        while self._cuts:
            self.cut()
        return self.seen

    def digests(self) -> list[int]:
        """The sum over the keys of each bucket, including records of open transactions."""
        sums = [0] * BUCKETS
        for key, last in self.keys.items():
            if not last.is_tombstone:
                _sum(sums, key, b"%d %d " % last[:2] + key)
        for written in self._open.values():
            for key, last in written.items():
                _sum(sums, key, b"? %d %d " % last[:2] + key)
        return [each & MASK for each in sums]

    def of(self, buckets: set[int]) -> LastValueDigests:
        last_values = LastValueDigests(
            {key: last for key, last in self.keys.items() if crc32(key) % BUCKETS in buckets}, {}
        )
        for written in self._open.values():
            for key, last in written.items():
                if crc32(key) % BUCKETS in buckets:
                    last_values.pending.setdefault(key, set()).add(last.offset)
        return last_values


def _sum(sums: list[int], key: bytes, line: bytes) -> None:
    sums[crc32(key) % BUCKETS] += crc32c(line) * crc32(line)


def _enter(target: dict[bytes, Last], payload: bytes, found: Outlines, base_offset: int) -> None:
    """The checksum of a record from its value on. The part before it is taken from the batch, whose timestamp a delete
    horizon may replace."""
    for number, key in enumerate(found.keys):
        if key is not None:
            record = crc32c(payload[found.values_at[number] : found.bounds[number + 1]])
            is_gone = not found.has_value(payload, number)
            target[key] = Last(base_offset + found.deltas[number], record, is_gone)


def differing(digests: Mapping[int, Mapping[int, Sequence[int]]], ends: Mapping[int, int]) -> list[int]:
    """The buckets in which two replicas differ below the ends of both. `digests`: broker → cut → digests."""
    found: set[int] = set()
    for one, other in combinations(digests, 2):
        cut = min(ends[one], ends[other])
        pairs = zip(digests[one][cut], digests[other][cut], strict=True)
        found |= {number for number, (ours, theirs) in enumerate(pairs) if ours != theirs}
    return sorted(found)


def contradictions(logs: Sequence[ReplicaLog], last_values: Mapping[int, LastValueDigests]) -> Iterator[str]:
    """A sentence for each key for which two replicas cannot both be right."""
    for one, other in combinations([log for log in logs if log.broker in last_values], 2):
        ours, theirs = last_values[one.broker], last_values[other.broker]
        for key in sorted({*ours.lasts, *theirs.lasts}):
            mine, its = ours.lasts.get(key), theirs.lasts.get(key)
            pending = ours.pending.get(key, set()) | theirs.pending.get(key, set())
            if _contradict(one, other, mine, its, pending):
                first, second = _last_text(mine), _last_text(its)
                yield f"key {_text(key)}: broker {one.broker} has {first}, broker {other.broker} has {second}"


def _contradict(
    one: ReplicaLog, other: ReplicaLog, mine: Last | None, its: Last | None, pending: Collection[int]
) -> bool:
    """`pending`: records of transactions whose end one of the replicas does not have yet."""
    if mine is not None and its is not None and mine.offset == its.offset:
        return mine.record != its.record
    newer, lacking = (mine, other) if its is None or (mine is not None and mine.offset > its.offset) else (its, one)
    older = its if newer is mine else mine
    assert newer is not None
    is_expected = lacking.start <= newer.offset < lacking.end and newer.offset not in pending
    return is_expected and not (newer.is_tombstone and (older is None or older.is_tombstone))


def _text(key: bytes) -> str:
    shown = repr(key[:_SHOWN])[1:]
    return shown if len(key) <= _SHOWN else f"{shown}…"


def _last_text(last: Last | None) -> str:
    if last is None:
        return "nothing"
    return f"{'a tombstone' if last.is_tombstone else 'a value'} at {last.offset}"
