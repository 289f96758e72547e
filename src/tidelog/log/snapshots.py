"""Producer snapshots (`.snapshot`, Kafka's version 1): the producers as of an offset, which the file's name says.

    version int16 · CRC-32C of all that follows, uint32 · count int32 · per producer: id 8 · epoch 2 · last sequence 4
    last offset 8 · offset delta 4 · timestamp 8 · coordinator epoch 4 · first offset of the open transaction 8

Only a producer's last batch is kept, so after a restart from a snapshot alone the window of duplicates is one batch.
A snapshot whose checksum fails is deleted and an older one is taken: snapshots only save replaying the log.
"""

from bisect import insort
from collections.abc import Iterable
from struct import Struct

from tidelog.checksums import crc32c
from tidelog.errors import CorruptLog, DiskFull
from tidelog.log import names
from tidelog.log.producers import AppendedBatch, Producer, Producers
from tidelog.ports import Disk
from tidelog.wire.records import MAX_SEQUENCE

VERSION = 1
_HEAD = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


def encode(producers: Iterable[Producer]) -> bytes:
    entries = [_ENTRY.pack(*_fields(producer)) for producer in producers]
    body = b"".join((_COUNT.pack(len(entries)), *entries))
    return _HEAD.pack(VERSION, crc32c(body)) + body


def decode(content: bytes, path: str) -> list[Producer]:
    """Raises CorruptLog if version, length or checksum is wrong."""
    if len(content) < _HEAD.size + _COUNT.size:
        raise CorruptLog(f"{path}: too short")
    version, crc = _HEAD.unpack_from(content)
    if version != VERSION:
        raise CorruptLog(f"{path}: version {version} is not known")
    body = memoryview(content)[_HEAD.size :]
    (count,) = _COUNT.unpack_from(body)
    if crc32c(body) != crc or len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptLog(f"{path}: the checksum does not hold")
    return [_producer(fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _fields(producer: Producer) -> tuple[int, ...]:
    last = producer.batches[-1] if producer.batches else None
    return (
        producer.producer_id,
        producer.epoch,
        producer.last_sequence,
        producer.last_offset,
        last.last_offset - last.first_offset if last else 0,
        producer.timestamp,
        producer.coordinator_epoch,
        producer.transaction_start,
    )


def _producer(fields: tuple[int, ...]) -> Producer:
    producer = Producer(fields[0], fields[1])
    last_sequence, last_offset, offset_delta, producer.timestamp = fields[2:6]
    producer.coordinator_epoch, producer.transaction_start = fields[6:]
    if last_offset >= 0:
        first = (last_sequence - offset_delta) & MAX_SEQUENCE
        producer.batches.append(
            AppendedBatch(first, last_sequence, last_offset - offset_delta, last_offset, producer.timestamp)
        )
    return producer


class Snapshots:
    """The snapshot files of one partition folder, by offset."""

    __slots__ = ("_disk", "_folder", "offsets")

    def __init__(self, disk: Disk, folder: str, offsets: Iterable[int] = ()) -> None:
        self._disk = disk
        self._folder = folder
        self.offsets = sorted(offsets)

    def __repr__(self) -> str:
        return f"<Snapshots {self._folder} {self.offsets}>"

    def path(self, offset: int) -> str:
        return f"{self._folder}/{names.name(offset, names.SNAPSHOT)}"

    def write(self, producers: Producers) -> str:
        """Write a snapshot of the producers at their end offset; returns the path of the file, which is not synced."""
        offset = producers.end_offset
        content = encode(producers.values())
        path = self.path(offset)
        self.remove([offset])
        self._disk.remove(path)
        file = self._disk.open(path, create=True)
        try:
            file.write(0, content)
        except DiskFull:
            self._disk.remove(path)
            raise
        finally:
            file.close()
        insort(self.offsets, offset)
        return path

    def load(self, at_most: int, otherwise: int) -> Producers:
        """The producers of the newest valid snapshot not above `at_most`; otherwise none, with end offset
        `otherwise`."""
        for offset in [offset for offset in reversed(self.offsets) if offset <= at_most]:
            try:
                return Producers(decode(self._disk.read(self.path(offset)), self.path(offset)), offset)
            except (CorruptLog, FileNotFoundError):
                self.remove([offset])
        return Producers(end_offset=otherwise)

    def remove(self, offsets: Iterable[int]) -> None:
        for offset in set(offsets).intersection(self.offsets):
            self._disk.remove(self.path(offset))
            self.offsets.remove(offset)

    def remove_outside(self, start: int, end: int) -> None:
        """Keep snapshots in (start, end]: at or below the log's start they have no producers."""
        self.remove([offset for offset in self.offsets if not start < offset <= end])

    def remove_strays(self, bases: set[int]) -> None:
        """Keep snapshots at the base of a segment, and the newest if it is above the base of the last segment."""
        last = max(bases, default=-1)
        newest = self.offsets[-1] if self.offsets and self.offsets[-1] > last else None
        self.remove([offset for offset in self.offsets if offset not in bases and offset != newest])
