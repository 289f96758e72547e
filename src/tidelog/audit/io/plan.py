"""The plan of an audit: partitions, their replicas, and the pieces of each replica's log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.audit.core.acknowledged import Acknowledged, between
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.merging import ReplicaInfo
from tidelog.audit.core.scanning import NO_END, UNKNOWN
from tidelog.audit.io import folders
from tidelog.audit.io.folders import LogFolder
from tidelog.audit.io.pieces import Piece
from tidelog.model import INTERNAL_TOPICS, TopicPartition

PIECE_BYTES = 256 * 1024 * 1024
CHUNKS = 256
"""The approximate number of chunks of a replica, which the driver compares."""
LEAST_WIDTH = 4096

AcknowledgedRecords = Mapping[TopicPartition, Sequence[Acknowledged]]


@dataclass(slots=True)
class Replica:
    """`path` is its folder, if it is on this machine."""

    info: ReplicaInfo
    pieces: list[Piece]
    path: Path | None = None


@dataclass(slots=True)
class Subject:
    """One partition."""

    name: TopicPartition
    replicas: list[Replica] = field(default_factory=list)
    is_compacted: bool = False
    leader: int = UNKNOWN
    leader_epoch: int = UNKNOWN
    width: int = LEAST_WIDTH
    acknowledged: Sequence[Acknowledged] = ()


@dataclass(slots=True)
class Plan:
    """`findings` are those of the planning itself."""

    subjects: list[Subject] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def width_of(span: int) -> int:
    """The width of a chunk for a partition with this many offsets: a power of two."""
    return max(LEAST_WIDTH, 1 << max(0, (span // CHUNKS).bit_length()))


def of_folders(
    found: Sequence[LogFolder],
    *,
    topics: Iterable[str] = (),
    compacted: Iterable[str] = (),
    acknowledged: AcknowledgedRecords | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> Plan:
    """Plan the audit of the replicas in these folders, of brokers that are not running; all topics if none is given."""
    wanted, given = set(topics), acknowledged or {}
    compacted_topics = {*compacted, *INTERNAL_TOPICS}
    plan, expected = Plan(), folders.majority(found)
    subjects: dict[TopicPartition, list[tuple[LogFolder, Path]]] = {}
    for folder in found:
        for name, path in folder.replicas.items():
            if (not wanted or name.topic in wanted) and not folders.is_stray(folder, name, expected):
                subjects.setdefault(name, []).append((folder, path))
    for name, held in sorted(subjects.items()):
        is_compacted = name.topic in compacted_topics or any(name in folder.compacted for folder, _ in held)
        subject = Subject(name, is_compacted=is_compacted, acknowledged=given.get(name, ()))
        subject.width = width_of(_span([path for _, path in held]))
        for folder, path in _once(held):
            subject.replicas.append(of_folder(folder, path, subject, piece_bytes=piece_bytes))
        plan.subjects.append(subject)
    strange = folders.stray_replicas(found, expected)
    plan.findings = [each for each in strange if not wanted or each.topic in wanted or each.partition < 0]
    return plan


def _once(held: Iterable[tuple[LogFolder, Path]]) -> Iterator[tuple[LogFolder, Path]]:
    """Each replica once: the first, if it is in two folders of its broker."""
    seen: set[int] = set()
    for folder, path in held:
        if folder.broker not in seen:
            seen.add(folder.broker)
            yield folder, path


def _span(paths: Iterable[Path]) -> int:
    """The number of offsets between the first and the last segment of a partition's replicas."""
    bases = [base for path in paths for base, _, _ in folders.segments(path)]
    return max(bases, default=0) - min(bases, default=0)


def of_folder(
    folder: LogFolder,
    path: Path,
    subject: Subject,
    *,
    start: int = 0,
    number: int = 0,
    is_growing: bool = False,
    piece_bytes: int = PIECE_BYTES,
) -> Replica:
    """The replica in a folder, or its part from `start` on; its pieces are numbered from `number`."""
    name, found = subject.name, folders.segments(path)
    info = ReplicaInfo(
        folder.broker,
        folder=str(path),
        high_watermark=folder.high_watermarks.get(name, UNKNOWN),
        log_start=folder.log_starts.get(name, UNKNOWN),
        recovery_point=folder.recovery_points.get(name, UNKNOWN),
        is_growing=is_growing,
        segments=len(found),
        last_base=found[-1][0] if found else UNKNOWN,
    )
    found = [each for index, each in enumerate(found) if index + 1 == len(found) or found[index + 1][0] > start]
    groups = list(_grouped(found, piece_bytes))
    pieces = []
    for index, group in enumerate(groups):
        is_last = index + 1 == len(groups)
        end = NO_END if is_last else groups[index + 1][0][0]
        pieces.append(
            Piece(
                name,
                folder.broker,
                number + index,
                subject.width,
                gaps_allowed=subject.is_compacted,
                start=start,
                files=tuple(str(file) for _, file, _ in group),
                until=end,
                is_growing=is_growing,
                is_last=is_last,
                checks_indexes=not start and not is_growing,
                acknowledged=between(subject.acknowledged, max(start, group[0][0]), end),
                size=sum(size for _, _, size in group),
            )
        )
    return Replica(info, pieces, path)


def _grouped(found: Sequence[tuple[int, Path, int]], piece_bytes: int) -> Iterator[list[tuple[int, Path, int]]]:
    group: list[tuple[int, Path, int]] = []
    for each in found:
        if group and sum(size for _, _, size in group) + each[2] > piece_bytes:
            yield group
            group = []
        group.append(each)
    if group:
        yield group
