"""Snapshots of the metadata: files that stand for the log up to an offset (KIP-630).

A file is named after that offset and the epoch of the record before it, and is a sequence of record batches with their
own offsets, from 0 on: a control batch that begins with SnapshotHeader, batches of sessions and nodes, and
SnapshotFooter. It is written beside its final name, made durable, and renamed: a file with that name is whole. Only
then may the log begin at its offset.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from tidelog.errors import ApiError, CorruptLog, ProtocolViolation
from tidelog.log.durability import FolderFile
from tidelog.ports import Buffer, Disk, File
from tidelog.quorum.control_records import Control, control_batch, control_of
from tidelog.quorum.records import Decoded, LastSession, OpenSession, SnapshotRecord, StoredNode, decode, encode
from tidelog.quorum.tree import Tree, TreeImage
from tidelog.wire.messages.cluster.metadata_log import (
    FeatureLevelRecord,
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    UserScramCredentialRecord,
    Voter,
    VotersRecord,
)
from tidelog.wire.records import BatchBuilder, BatchHeader, Record, batches, crc_holds, records

SUFFIX = ".checkpoint"
UNFINISHED = ".part"
SLICE_RECORDS = 100
SLICE_BYTES = 65_536
"""Records and bytes of one batch, and of one slice of work: about 0.5 ms."""

Writable = SnapshotRecord | FeatureLevelRecord | UserScramCredentialRecord
Syncs = Generator[Sequence[File], None, None]
"""Work in slices. The files of each step must be durable before the next one; without any it may go on at once."""

_NAME = re.compile(r"(\d{20})-(\d{10})" + re.escape(SUFFIX))


class SnapshotId(NamedTuple):
    """A snapshot has what the records before `end_offset` made; the last of them is of `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


def parse_name(name: str) -> SnapshotId | None:
    """The snapshot that a file of this name is; None for other files."""
    found = _NAME.fullmatch(name)
    return SnapshotId(int(found[1]), int(found[2])) if found else None


def held(names: Iterable[str]) -> list[SnapshotId]:
    """The snapshots among the files of a folder, the oldest first."""
    return sorted(found for name in names if (found := parse_name(name)))


class QuorumState(NamedTuple):
    """What a snapshot has of the quorum itself. `voters` is None where the log does not say who votes."""

    kraft_version: int = 0
    voters: Sequence[Voter] | None = None


# Writing


def content_of(
    epoch: int, content: Iterable[Writable], state: QuorumState, *, last_timestamp: int, timestamp: int | None = None
) -> Iterator[bytes]:
    """The batches of a snapshot, each a slice of work. `last_timestamp` is that of the last record that it stands for,
    and, without a `timestamp`, that of its own records: then all nodes write the same bytes."""
    now = last_timestamp if timestamp is None else timestamp
    begin: list[Control] = [SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp)]
    if state.kraft_version > 0:
        begin.append(KRaftVersionRecord(k_raft_version=state.kraft_version))
        if state.voters is not None:
            begin.append(VotersRecord(voters=list(state.voters)))
    yield control_batch(begin, timestamp=now, base_offset=0, epoch=epoch)
    offset = len(begin)
    remaining = iter(content)
    while (batch := _next_batch(remaining, now)) is not None:
        yield batch.build(base_offset=offset, leader_epoch=epoch)
        offset += len(batch)
    yield control_batch([SnapshotFooterRecord()], timestamp=now, base_offset=offset, epoch=epoch)


def _next_batch(remaining: Iterator[Writable], timestamp: int) -> BatchBuilder | None:
    batch = BatchBuilder()
    for record in islice(remaining, SLICE_RECORDS):
        batch.append(Record(timestamp=timestamp, value=encode(record)))
        if batch.size >= SLICE_BYTES:
            break
    return batch if len(batch) else None


def make(
    disk: Disk, folder: str, which: SnapshotId, picture: TreeImage, state: QuorumState, last_timestamp: int
) -> Syncs:
    """Write the snapshot of a picture, in slices; when this ends, it is durable."""
    incoming = Incoming(disk, folder, which)
    for batch in content_of(which.epoch, picture.records(), state, last_timestamp=last_timestamp):
        incoming.write(batch)
        yield ()
    yield from incoming.finish()


class Incoming:
    """A snapshot that is being written or fetched. It counts once `finish` has ended."""

    def __init__(self, disk: Disk, folder: str, which: SnapshotId) -> None:
        self._disk = disk
        self._folder = folder
        self.id = which
        self._path = f"{folder}/{which.file_name}"
        disk.remove(self._path + UNFINISHED)
        self._file = disk.open(self._path + UNFINISHED, create=True)
        self.position = 0

    def __repr__(self) -> str:
        return f"Incoming({self.id.file_name}, {self.position} bytes)"

    def write(self, data: Buffer) -> None:
        """Append the next bytes."""
        self._file.write(self.position, data)
        self.position += len(data)

    def check(self, size: int) -> Generator[None, None, None]:
        """CorruptLog unless the file has this size and is a whole snapshot; in slices."""
        if self.position != size:
            raise CorruptLog(f"{self._path}: {self.position} bytes, {size} were announced")
        for _ in read(self._file.read(0, size), self._path, self.id.epoch):
            yield

    def finish(self) -> Syncs:
        """Make it durable under its final name."""
        yield (self._file,)
        self._file.close()
        self._disk.rename(self._path + UNFINISHED, self._path)
        yield (FolderFile(self._disk, self._folder),)

    def discard(self) -> None:
        self._file.close()
        self._disk.remove(self._path + UNFINISHED)


def remove_unfinished(disk: Disk, folder: str) -> None:
    """Remove what a stopped process left half written."""
    for name in disk.list(folder):
        if name.endswith(SUFFIX + UNFINISHED):
            disk.remove(f"{folder}/{name}")


# Reading


class Loaded(NamedTuple):
    """What a snapshot had. `features` and `users` are only in those of a formatted folder."""

    tree: Tree
    state: QuorumState
    last_timestamp: int
    features: dict[str, int]
    users: list[UserScramCredentialRecord]


def load(content: Buffer, path: str, epoch: int | None = None) -> Generator[None, None, Loaded]:
    """Read a snapshot, in slices. CorruptLog if it is not whole. Its tree is empty where it has no nodes."""
    tree, features, users = Tree(), dict[str, int](), list[UserScramCredentialRecord]()
    state, last_timestamp = QuorumState(), -1
    for batch in read(content, path, epoch):
        for record in batch:
            match record:
                case StoredNode() | OpenSession() | LastSession():
                    tree.load(record)
                case FeatureLevelRecord():
                    features[record.name] = record.feature_level
                case UserScramCredentialRecord():
                    users.append(record)
                case SnapshotHeaderRecord():
                    last_timestamp = record.last_contained_log_timestamp
                case KRaftVersionRecord():
                    state = state._replace(kraft_version=record.k_raft_version)
                case VotersRecord():
                    state = state._replace(voters=record.voters)
        yield
    return Loaded(tree, state, last_timestamp, features, users)


def read(content: Buffer, path: str, epoch: int | None = None) -> Iterator[list[Control | Decoded]]:
    """The records of each batch. CorruptLog at the first that does not belong to a whole snapshot of this epoch (None:
    of any): the checksums and offsets, the header at the beginning, the footer at the end and nothing behind it."""
    expected, ended, end = 0, False, 0
    try:
        for batch in batches(content):
            if ended:
                raise CorruptLog(f"{path}: records after the end of the snapshot")
            if not crc_holds(content, batch) or batch.base_offset != expected or not batch.count:
                raise CorruptLog(f"{path}: the batch at byte {batch.position} is damaged")
            if epoch is not None and batch.leader_epoch != epoch:
                raise CorruptLog(f"{path}: a batch of epoch {batch.leader_epoch}")
            found = read_batch(content, batch)
            if (expected == 0) != any(isinstance(each, SnapshotHeaderRecord) for each in found):
                raise CorruptLog(f"{path}: the snapshot does not begin with its header")
            ended = any(isinstance(each, SnapshotFooterRecord) for each in found)
            expected, end = batch.next_offset, batch.end
            yield found
    except (ApiError, ProtocolViolation) as error:
        raise CorruptLog(f"{path}: {error}") from None
    if not ended or end != len(content):
        raise CorruptLog(f"{path}: the end of the snapshot is missing")


class Heading(NamedTuple):
    """What a snapshot begins with: who votes, and when the last record that it stands for was written."""

    state: QuorumState
    last_timestamp: int


def heading(disk: Disk, folder: str, which: SnapshotId) -> Heading:
    """What the snapshot in the folder begins with; the rest is not read. CorruptLog if that is damaged."""
    path = f"{folder}/{which.file_name}"
    file = disk.open(path)
    content = file.read(0, _HEADING_BYTES)
    file.close()
    state, last_timestamp = QuorumState(), -1
    for record in next(read(content, path, which.epoch), ()):
        match record:
            case SnapshotHeaderRecord():
                last_timestamp = record.last_contained_log_timestamp
            case KRaftVersionRecord():
                state = state._replace(kraft_version=record.k_raft_version)
            case VotersRecord():
                state = state._replace(voters=record.voters)
    return Heading(state, last_timestamp)


_HEADING_BYTES = 65_536


def read_batch(content: Buffer, batch: BatchHeader) -> list[Control | Decoded]:
    """The records of a batch of the metadata log or of a snapshot; control records of other kinds are left out."""
    if batch.is_control:
        return [control for record in records(content, batch) if (control := control_of(record)) is not None]
    return [decode(record.value or b"") for record in records(content, batch)]


# How many there are


class Held(NamedTuple):
    """A snapshot in the folder: its size, and when the last record that it stands for was written."""

    id: SnapshotId
    size: int
    last_timestamp: int


def is_due(bytes_since: int, ms_since: int, *, max_bytes: int, interval_ms: int) -> bool:
    """Whether a new snapshot is due, so many bytes of records and milliseconds after the last one."""
    return bytes_since >= max_bytes or (bytes_since > 0 and 0 < interval_ms <= ms_since)


def first_kept(
    snapshots: Sequence[Held], log_bytes: int, now_wall: int, *, retention_bytes: int, retention_ms: int
) -> SnapshotId:
    """The oldest of the snapshots (there is one at least) that is not beyond the retention: those before it are
    removed, and then the log begins at its end. A negative limit is none."""
    total = log_bytes + sum(each.size for each in snapshots)
    kept = 0
    for each in snapshots[:-1]:
        too_many = 0 <= retention_bytes < total
        too_old = 0 <= retention_ms < now_wall - each.last_timestamp
        if not too_many and not too_old:
            break
        total -= each.size
        kept += 1
    return snapshots[kept].id
