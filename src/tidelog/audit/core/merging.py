"""Puts the pieces of one replica's log together, in order, with what else is known of the replica."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog.audit.core import finding
from tidelog.audit.core.scanning import UNKNOWN, Chunk, Fault, Scan, close_damage, misplaced

HIDING = frozenset({finding.CHECKSUM, finding.DAMAGED, finding.TORN, finding.GAP, finding.UNREADABLE})
"""Faults that hide offsets: a difference to another replica there proves nothing more."""


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """What the plan knows of a replica before its log is read. Offsets are UNKNOWN where nothing reports them.
    `source`: fetch, folder, or both."""

    broker: int
    source: str = "folder"
    folder: str = ""
    high_watermark: int = UNKNOWN
    log_start: int = UNKNOWN
    recovery_point: int = UNKNOWN
    in_sync: bool = False
    is_leader: bool = False
    ends_at_watermark: bool = False
    """Only offsets below the high watermark were read, so the end of the log is unknown."""
    is_growing: bool = False
    segments: int = 0
    last_base: int = UNKNOWN
    """The base offset of the last segment: the log reaches that far even if all batches before it are gone."""
    trouble: str = ""


@dataclass(slots=True)
class ReplicaLog:
    """One replica: [start, end) of its batches, chunks by number, epochs with their first offsets, faults."""

    info: ReplicaInfo
    start: int = UNKNOWN
    end: int = UNKNOWN
    batches: int = 0
    bytes: int = 0
    chunks: dict[int, Chunk] = field(default_factory=dict)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    checkpointed_epochs: list[tuple[int, int]] | None = None
    faults: list[Fault] = field(default_factory=list)
    uncounted: int = 0
    missing: dict[tuple[int, int], str] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)

    @property
    def broker(self) -> int:
        return self.info.broker

    @property
    def is_empty(self) -> bool:
        return not self.batches

    @property
    def latest_epoch(self) -> int:
        """The latest epoch, including an epoch without records that it led or followed."""
        kept = self.checkpointed_epochs[-1][0] if self.checkpointed_epochs else UNKNOWN
        return max(kept, self.epochs[-1][0] if self.epochs else UNKNOWN)

    def epoch_at(self, offset: int) -> int:
        return max((epoch for epoch, start in self.epochs if start <= offset), default=UNKNOWN)

    def hides(self, offset: int) -> bool:
        """Whether a fault hides the offset: its content is unknown, or already reported."""
        return self.hides_all(offset, offset + 1)

    def hides_all(self, start: int, end: int) -> bool:
        return any(each.kind in HIDING and each.start <= start and end <= each.end for each in self.faults)


def merge(info: ReplicaInfo, scans: Sequence[Scan], *, gaps_allowed: bool) -> ReplicaLog:
    """Merge the scans of a replica's pieces, in order."""
    log = ReplicaLog(info, trouble=[info.trouble] if info.trouble else [])
    due = UNKNOWN
    for scan in scans:
        for number, chunk in scan.chunks.items():
            log.chunks[number] = added(log.chunks.get(number), chunk)
        if scan.first != UNKNOWN:
            log.start = scan.first if log.start == UNKNOWN else log.start
            close_damage(log.faults, scan.first)
            _join(log, due, scan, gaps_allowed=gaps_allowed)
            log.end = scan.end
        due = scan.end if scan.end != UNKNOWN else due
        if scan.trouble or any(fault.kind in (finding.DAMAGED, finding.TORN) for fault in scan.faults):
            due = UNKNOWN
        log.batches += scan.batches
        log.bytes += scan.bytes
        log.faults += scan.faults
        log.uncounted += scan.uncounted
        log.missing.update(scan.missing)
        if scan.trouble:
            log.trouble.append(scan.trouble)
            log.faults.append(Fault(finding.UNREADABLE, max(log.end, 0), max(log.end, 0), scan.trouble))
    _reach(log, due, gaps_allowed=gaps_allowed)
    return log


def _reach(log: ReplicaLog, due: int, *, gaps_allowed: bool) -> None:
    """The base offset of an empty last segment is the end of the log."""
    base = log.info.last_base
    if base > log.end:
        fault = misplaced(due, base, base, gaps_allowed=gaps_allowed)
        if fault is not None:
            log.faults.append(fault)
        close_damage(log.faults, base)
        log.start = base if log.start == UNKNOWN else log.start
        log.end = base


def added(before: Chunk | None, chunk: Chunk) -> Chunk:
    """The sum of two pieces' digests of a chunk."""
    if before is None:
        return chunk
    summed = (before.digest + chunk.digest) & (2**64 - 1)
    return Chunk(before.batches + chunk.batches, before.bytes + chunk.bytes, summed)


def _join(log: ReplicaLog, due: int, scan: Scan, *, gaps_allowed: bool) -> None:
    fault = misplaced(due, scan.first, scan.first + 1, gaps_allowed=gaps_allowed)
    if fault is not None:
        log.faults.append(fault)
    for epoch, first in scan.epochs:
        if not log.epochs or log.epochs[-1][0] != epoch:
            if log.epochs and epoch < log.epochs[-1][0] and first == scan.first:
                before = log.epochs[-1][0]
                sentence = f"the batch at offset {first} is of epoch {epoch}, the one before it of {before}"
                log.faults.append(Fault(finding.EPOCH_ORDER, first, first + 1, sentence))
            log.epochs.append((epoch, first))
