"""The files beside a segment as lines: its indexes and its producer snapshot."""

from collections.abc import Iterator
from pathlib import Path

from tidelog.errors import CorruptLog
from tidelog.log import names, snapshots
from tidelog.log.index import OffsetIndex, TimeIndex
from tidelog.log.producers import Producer
from tidelog.log.transactions import VERSION, TransactionIndex


def offsets(path: Path) -> Iterator[str]:
    index = OffsetIndex(_base(path), path.read_bytes())
    if not index.content:
        yield f"{path} is empty."
    for number in range(len(index)):
        offset, position = index.entry(number)
        yield f"offset: {offset} position: {position}"


def times(path: Path) -> Iterator[str]:
    index = TimeIndex(_base(path), path.read_bytes())
    for number in range(len(index)):
        timestamp, offset = index.entry(number)
        yield f"timestamp: {timestamp} offset: {offset}"


def transactions(path: Path) -> Iterator[str]:
    for one in TransactionIndex(path.read_bytes()):
        yield (
            f"version: {VERSION} producerId: {one.producer_id} firstOffset: {one.first_offset}"
            f" lastOffset: {one.last_offset} lastStableOffset: {one.last_stable_offset}"
        )


def producers(path: Path) -> Iterator[str]:
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


def is_sane(path: Path) -> bool:
    """Whether this can be the index that its name says, as a broker judges when it starts."""
    content, base = path.read_bytes(), _base(path)
    try:
        size = path.with_suffix(names.LOG).stat().st_size
    except FileNotFoundError:
        raise CorruptLog(f"{path}: there is no {path.with_suffix(names.LOG).name} beside it") from None
    if path.suffix == names.INDEX:
        return OffsetIndex(base, content).is_sane(size)
    if path.suffix == names.TIME_INDEX:
        return TimeIndex(base, content).is_sane()
    return TransactionIndex(content).is_sane(base)


def _base(path: Path) -> int:
    return int(path.name.split(".")[0])
