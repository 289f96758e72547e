"""The text of log files as kafka-dump-log prints it: segments, indexes and producer snapshots."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli import internal_records as internal
from tidelog.errors import ApiError, CorruptLog
from tidelog.log import names, snapshots
from tidelog.log.index import OffsetIndex, TimeIndex
from tidelog.log.producers import Producer
from tidelog.log.transactions import VERSION, TransactionIndex
from tidelog.wire.compression import Compression
from tidelog.wire.records import (
    MAX_SEQUENCE,
    NO_SEQUENCE,
    BatchHeader,
    Record,
    batches,
    crc_holds,
    read_marker,
    records,
)

Decode = Callable[[Record], tuple[str | None, str | None]]
"""Returns the key and the payload of a record as text."""


class SegmentFormat(NamedTuple):
    """How to print a segment; `decode` is None if records are not printed."""

    decode: Decode | None = None
    metadata: bool = True
    max_bytes: int = 2**31 - 1


def record_as_text(record: Record) -> tuple[str | None, str | None]:
    return _text(record.key), _text(record.value)


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def internal_record_decoder(formats: dict[int, internal.RecordFormat]) -> Decode:
    """A function that decodes records of an internal topic."""

    def decode(record: Record) -> tuple[str | None, str | None]:
        if record.key is None:
            return None, None
        try:
            found = internal.record_as_json(formats, record.key, record.value, formats)
        except internal.UnreadableRecord as error:
            return None, str(error)
        assert found is not None
        kind, value = found["key"], found["value"]
        key = {"type": str(kind["type"]), "data": kind["data"]}
        payload = None if value is None else {"version": str(value["version"]), "data": value["data"]}
        return _json(key), "<DELETE>" if payload is None else _json(payload)

    return decode


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def segment_lines(path: Path, wanted: SegmentFormat) -> Iterator[str]:
    """The lines of a segment; at damage, a line that reports it, and nothing of the rest of the file."""
    yield f"Log starting offset: {int(path.name.split('.')[0])}"
    with path.open("rb") as file:
        content = file.read(wanted.max_bytes)
    end = 0
    try:
        for batch in batches(content):
            end = batch.end
            valid = crc_holds(content, batch)
            yield _batch(batch, valid=valid)
            if wanted.decode is not None and valid:
                yield from _records(content, batch, wanted)
    except ApiError as error:
        yield f"Found damage at byte {end}: {error}"
        return
    if end < path.stat().st_size and len(content) < wanted.max_bytes:
        yield f"Found {len(content) - end} invalid bytes at the end of {path.name}"


def _batch(batch: BatchHeader, *, valid: bool) -> str:
    horizon = f"OptionalLong[{batch.base_timestamp}]" if batch.has_delete_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count}"
        f" baseSequence: {batch.base_sequence} lastSequence: {batch.last_sequence}"
        f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
        f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {_true_or_false(batch.is_transactional)}"
        f" isControl: {_true_or_false(batch.is_control)} deleteHorizonMs: {horizon} position: {batch.position}"
        f" {batch.timestamp_type}: {batch.max_timestamp} size: {batch.length} magic: {batch.magic}"
        f" compresscodec: {_codec(batch.compression)} crc: {batch.crc} isvalid: {_true_or_false(valid)}"
    )


def _true_or_false(value: bool) -> str:
    return str(value).lower()


def _codec(number: int) -> str:
    return Compression(number).name.lower() if number in list(Compression) else f"unknown ({number})"


def _records(content: bytes, batch: BatchHeader, wanted: SegmentFormat) -> Iterator[str]:
    assert wanted.decode is not None
    for record in records(content, batch):
        parts = list(_metadata(batch, record)) if wanted.metadata else []
        if batch.is_control and not wanted.metadata:
            yield ""  # Kafka's tool prints an empty line for a skipped control record
            continue
        if batch.is_control:
            parts += _control(record)
        else:
            key, payload = wanted.decode(record)
            parts += [f"key: {key}"] if key is not None else []
            parts += [f"payload: {payload}"] if payload is not None else []
        yield f"| {' '.join(parts)}"


def _metadata(batch: BatchHeader, record: Record) -> Iterator[str]:
    yield f"offset: {record.offset} {batch.timestamp_type}: {record.timestamp}"
    yield f"keySize: {_size(record.key)} valueSize: {_size(record.value)}"
    sequence = NO_SEQUENCE
    if batch.base_sequence != NO_SEQUENCE:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) & MAX_SEQUENCE
    yield f"sequence: {sequence} headerKeys: [{','.join(name for name, _ in record.headers)}]"


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _control(record: Record) -> list[str]:
    marker = read_marker(record)
    if marker is None:
        return ["controlType: unknown"]
    return [f"endTxnMarker: {'COMMIT' if marker.committed else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"]


def offset_index_lines(path: Path) -> Iterator[str]:
    index = OffsetIndex(_base(path), path.read_bytes())
    if not index.content:
        yield f"{path} is empty."
    for number in range(len(index)):
        offset, position = index.entry(number)
        yield f"offset: {offset} position: {position}"


def time_index_lines(path: Path) -> Iterator[str]:
    index = TimeIndex(_base(path), path.read_bytes())
    for number in range(len(index)):
        timestamp, offset = index.entry(number)
        yield f"timestamp: {timestamp} offset: {offset}"


def transaction_index_lines(path: Path) -> Iterator[str]:
    for one in TransactionIndex(path.read_bytes()):
        yield (
            f"version: {VERSION} producerId: {one.producer_id} firstOffset: {one.first_offset}"
            f" lastOffset: {one.last_offset} lastStableOffset: {one.last_stable_offset}"
        )


def producer_snapshot_lines(path: Path) -> Iterator[str]:
    yield from map(_producer, snapshots.decode(path.read_bytes(), str(path)))


def _producer(producer: Producer) -> str:
    start = producer.transaction_start
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.epoch}"
        f" coordinatorEpoch: {producer.coordinator_epoch}"
        f" currentTxnFirstOffset: {'OptionalLong.empty' if start < 0 else f'OptionalLong[{start}]'}"
        f" lastTimestamp: {producer.timestamp} "
    )
    if producer.batches:
        last = producer.batches[-1]
        line += (
            f"firstSequence: {last.base_sequence} lastSequence: {last.last_sequence} lastOffset: {last.last_offset}"
            f" offsetDelta: {last.last_offset - last.first_offset} timestamp: {last.timestamp}"
        )
    return line


def is_sane_index(path: Path) -> bool:
    """Whether the index passes the check that a broker makes when it starts."""
    content, base = path.read_bytes(), _base(path)
    try:
        size = path.with_suffix(names.LOG).stat().st_size
    except FileNotFoundError:
        raise CorruptLog(f"{path}: {path.with_suffix(names.LOG).name} is missing") from None
    if path.suffix == names.INDEX:
        return OffsetIndex(base, content).is_sane(size)
    if path.suffix == names.TIME_INDEX:
        return TimeIndex(base, content).is_sane()
    return TransactionIndex(content).is_sane(base)


def _base(path: Path) -> int:
    return int(path.name.split(".")[0])
