"""Reads log folders on this machine: their replicas, their checkpoints, and folders that do not belong there."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tidelog.audit.core import finding
from tidelog.audit.core.finding import Finding
from tidelog.audit.core.scanning import NO_END, UNKNOWN, Scanner
from tidelog.audit.io import segment_files
from tidelog.errors import CorruptLog
from tidelog.log import checkpoints, names
from tidelog.model import NO_ID, TopicPartition, id_text

Parsed = TypeVar("Parsed")

DEPTH = 3
"""How many levels below a given folder log folders are searched for."""
_REPLICA = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)$")
_TRANSIENT = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f-]+-(?P<reason>delete|future|stray)$")
_REASONS = {"delete": "is about to be deleted", "future": "is a copy being moved to another disk"}


@dataclass(slots=True)
class LogFolder:
    """One log folder of a broker. Checkpoints that cannot be read are empty, and `troubles` has the reason."""

    path: Path
    broker: int
    cluster_id: str = ""
    replicas: dict[TopicPartition, Path] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, bytes] = field(default_factory=dict)
    transient: dict[str, tuple[TopicPartition, str]] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    compacted: frozenset[TopicPartition] = frozenset()
    troubles: list[str] = field(default_factory=list)


def find(given: Iterable[Path]) -> list[LogFolder]:
    """The log folders at these paths or below them; FileNotFoundError if there is none."""
    found: dict[Path, LogFolder] = {}
    for start in given:
        paths = list(_log_folders(start.resolve(), DEPTH))
        if not paths:
            raise FileNotFoundError(f"{start}: there is no log folder here or below.")
        for path in paths:
            if path not in found:
                found[path] = read(path, fallback=len(found))
    return list(found.values())


def _log_folders(folder: Path, depth: int) -> Iterator[Path]:
    if not folder.is_dir():
        return
    inside = sorted(folder.iterdir())
    marks = {checkpoints.META_PROPERTIES, checkpoints.REPLICATION_OFFSETS}
    if any(each.name in marks or _is_replica(each) for each in inside):
        yield folder
    elif depth:
        for below in inside:
            yield from _log_folders(below, depth - 1)


def _is_replica(path: Path) -> bool:
    marks = (checkpoints.PARTITION_METADATA, checkpoints.LEADER_EPOCHS)
    return _REPLICA.match(path.name) is not None and any((path / mark).exists() for mark in marks)


def read(path: Path, *, fallback: int = UNKNOWN) -> LogFolder:
    """Read a log folder; `fallback` is the broker id if the folder does not name one."""
    found = LogFolder(path, fallback)
    meta = _checked(found, checkpoints.META_PROPERTIES, checkpoints.read_meta_properties)
    if meta is not None:
        found.broker, found.cluster_id = meta.node_id, meta.cluster_id
    found.high_watermarks = _checked(found, checkpoints.REPLICATION_OFFSETS, checkpoints.read_offsets) or {}
    found.recovery_points = _checked(found, checkpoints.RECOVERY_POINTS, checkpoints.read_offsets) or {}
    found.log_starts = _checked(found, checkpoints.START_OFFSETS, checkpoints.read_offsets) or {}
    found.compacted = frozenset(_checked(found, checkpoints.CLEANER_OFFSETS, checkpoints.read_offsets) or ())
    for each in sorted(path.iterdir()):
        if each.is_dir():
            _add_replica(found, each)
    return found


def _checked(found: LogFolder, name: str, parse: Callable[[bytes, str], Parsed]) -> Parsed | None:
    path = found.path / name
    try:
        return parse(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except (CorruptLog, OSError) as error:
        found.troubles.append(str(error))
        return None


def _add_replica(found: LogFolder, path: Path) -> None:
    transient = _TRANSIENT.match(path.name)
    match = transient or _REPLICA.match(path.name)
    if match is None:
        return
    name = TopicPartition(match["topic"], int(match["partition"]))
    if transient is not None:
        found.transient[path.name] = name, transient["reason"]
        return
    found.replicas[name] = path
    try:
        content = (path / checkpoints.PARTITION_METADATA).read_bytes()
        found.topic_ids[name] = checkpoints.read_partition_metadata(content, str(path))
    except FileNotFoundError:
        found.topic_ids[name] = NO_ID
    except (CorruptLog, OSError) as error:
        found.topic_ids[name] = NO_ID
        found.troubles.append(str(error))


def segments(path: Path) -> list[tuple[int, Path, int]]:
    """(base offset, file, bytes) of a replica's segments, ascending. A swap after compaction that was interrupted
    counts as recovery completes it: once all `.swap` files exist, they replace the segments that they cover."""
    there = {file.name: file for file in path.iterdir()}
    plain = {_base(name): file for name, file in there.items() if names.is_kind(name, names.LOG)}
    swaps = {_base(name): file for name, file in there.items() if names.is_kind(name, names.LOG + names.SWAP)}
    cleaned = [_base(name) for name in there if name.endswith(names.CLEANED) and names.offset_of(name) is not None]
    swaps = {base: file for base, file in swaps.items() if base < min(cleaned, default=base + 1)}
    if swaps:
        end = max(_end(base, file) for base, file in swaps.items())
        plain = {base: file for base, file in plain.items() if not min(swaps) <= base < end} | swaps
    return sorted((base, file, file.stat().st_size) for base, file in plain.items())


def _end(base: int, file: Path) -> int:
    """The offset after the last batch of the file, or after its base offset."""
    scanner = Scanner(NO_END)
    segment_files.read_segment(str(file), scanner)
    return max(base + 1, scanner.scan.end)


def _base(name: str) -> int:
    return names.offset_of(name) or 0


def checkpointed_epochs(path: Path) -> list[tuple[int, int]] | None:
    """The replica's leader-epoch-checkpoint; None if there is none. CorruptLog if it is malformed."""
    file = path / checkpoints.LEADER_EPOCHS
    try:
        return checkpoints.read_epochs(file.read_bytes(), str(file))
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Expected:
    """What the folders should hold: topic ids, and the brokers of each partition, None if unknown."""

    topic_ids: Mapping[str, bytes]
    brokers: Mapping[TopicPartition, Sequence[int]] | None = None


def majority(found: Sequence[LogFolder]) -> Expected:
    """What the folders should hold if no cluster is queried: for each topic the id that most folders have."""
    votes: dict[str, dict[bytes, int]] = {}
    for folder in found:
        for (topic, _), id_ in folder.topic_ids.items():
            counted = votes.setdefault(topic, {})
            counted[id_] = counted.get(id_, 0) + (id_ != NO_ID)
    return Expected({topic: max(counted, key=lambda id_: (counted[id_], id_)) for topic, counted in votes.items()})


def stray_replicas(found: Sequence[LogFolder], expected: Expected) -> Iterator[Finding]:
    """Findings about stray folders, and about replicas that exist twice."""
    held: dict[tuple[int, TopicPartition], Path] = {}
    for folder in found:
        for called, (named, reason) in sorted(folder.transient.items()):
            yield _transient_finding(folder, called, named, reason)
        for trouble in folder.troubles:
            yield Finding(finding.UNREADABLE, str(folder.path), UNKNOWN, (folder.broker,), trouble)
        for name, path in sorted(folder.replicas.items()):
            before = held.setdefault((folder.broker, name), path)
            if before != path:
                yield Finding(finding.MISPLACED, *name, (folder.broker,), f"is in {before} and in {path}")
    yield from _unexpected(found, expected)


def _unexpected(found: Sequence[LogFolder], expected: Expected) -> Iterator[Finding]:
    for folder in found:
        for name, path in sorted(folder.replicas.items()):
            reason = _stray_reason(folder, name, expected)
            if reason:
                yield Finding(finding.ORPHAN, *name, (folder.broker,), f"{path} {reason}")


def _stray_reason(folder: LogFolder, name: TopicPartition, expected: Expected) -> str:
    if name.topic == names.METADATA_TOPIC:
        return ""
    wanted, own = expected.topic_ids.get(name.topic), folder.topic_ids[name]
    if wanted is None:
        return "belongs to a topic that does not exist"
    if own not in (NO_ID, wanted):
        return f"has topic id {id_text(own)}, but the topic has {id_text(wanted)}"
    if expected.brokers is not None and folder.broker not in expected.brokers.get(name, ()):
        return "is on a broker that has no replica of the partition"
    return ""


def is_stray(folder: LogFolder, name: TopicPartition, expected: Expected) -> bool:
    """Whether the partition does not have this replica."""
    return bool(_stray_reason(folder, name, expected))


def _transient_finding(folder: LogFolder, path: str, name: TopicPartition, reason: str) -> Finding:
    if reason == "stray":
        sentence = f"{folder.path / path} is on a broker that has no replica of the partition"
        return Finding(finding.ORPHAN, *name, (folder.broker,), sentence)
    return Finding(finding.LEAVING, *name, (folder.broker,), f"{folder.path / path} {_REASONS[reason]}")
