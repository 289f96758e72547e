"""The audit from a plan to a report, wherever its tasks run."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidelog.audit.core import keys
from tidelog.audit.core.comparing import differences, suspicious
from tidelog.audit.core.finding import in_order
from tidelog.audit.core.judging import Case
from tidelog.audit.core.merging import ReplicaLog, added, merge
from tidelog.audit.core.report import Report, report
from tidelog.audit.core.scanning import Chunk
from tidelog.audit.io import folders, pieces
from tidelog.audit.io.pieces import Chunks, Keys
from tidelog.audit.io.plan import LEAST_WIDTH, Plan, Replica, Subject
from tidelog.errors import CorruptLog

MOST_CHUNKS = 64
"""Of a partition so many chunks that differ are looked into, the first ones."""
MOST_BUCKETS = 16
"""Of a partition's buckets of keys that differ so many are looked into."""
PARTS = 256
FINEST = 1024
"""A chunk that differs is divided into so many parts, but not smaller ones: the driver holds their headers."""


GONE = "could not be read once more, so it was not compared batch by batch"


class Run(Protocol):
    """Maps one of the functions of `pieces` over items, in order; `sizes` in bytes tell which take long."""

    def __call__(self, function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]: ...


def here(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:  # noqa: ARG001 (as `Run`)
    """In this process, one after another."""
    return [function(item) for item in items]


def audit(plan: Plan, run: Run = here, tell: Callable[[str], None] = lambda _: None) -> Report:
    """Read everything, look into what differs, judge."""
    began = time.monotonic()
    every = [piece for subject in plan.subjects for replica in subject.replicas for piece in replica.pieces]
    tell(f"reading {len(every)} pieces, {sum(piece.size for piece in every) / 1e6:,.1f} MB")
    scans = iter(run(pieces.scan, every, [piece.size for piece in every]))
    cases = []
    for subject in plan.subjects:
        logs = [_log(subject, replica, [next(scans) for _ in replica.pieces]) for replica in subject.replicas]
        cases.append(
            Case(
                subject.name,
                logs,
                is_compacted=subject.is_compacted,
                leader=subject.leader,
                leader_epoch=subject.leader_epoch,
                acknowledged=subject.acknowledged,
            )
        )
    pairs = list(zip(plan.subjects, cases, strict=True))
    _compare_batches([pair for pair in pairs if not pair[0].is_compacted], run, tell)
    _compare_keys([pair for pair in pairs if pair[0].is_compacted], run, tell)
    return report(cases, plan.findings, seconds=time.monotonic() - began)


def confirmed(first: Report, look: Callable[[list[str]], Report]) -> Report:
    """A report on a cluster that runs, of which `look` audits some topics once more: while leaders change, a log may
    be cut between two looks at it, so what is broken must be so twice. The second look counts where there is one."""
    topics = sorted({view.topic for view in first.partitions if any(each.is_broken for each in first.of(view))})
    if not topics:
        return first
    second = look(topics)
    told = {each.key for each in first.findings}
    kept = [each for each in first.findings if each.topic not in topics]
    again = [each for each in second.findings if each.topic in topics and (not each.is_broken or each.key in told)]
    counted = {each[:3] for each in again if not each.is_count}
    kept += [each for each in again if not each.is_count or each[:3] in counted]
    views = [view for view in first.partitions if view.topic not in topics] + list(second.partitions)
    views.sort(key=lambda view: (view.topic, view.partition))
    return Report(views, in_order(kept), first.seconds + second.seconds)


def _log(subject: Subject, replica: Replica, scans: Sequence[Any]) -> ReplicaLog:
    log = merge(replica.known, scans, gaps_allowed=subject.is_compacted)
    if replica.path is not None:
        try:
            log.kept_epochs = folders.kept_epochs(replica.path)
        except (CorruptLog, OSError) as error:
            log.trouble.append(str(error))
    return log


@dataclass(slots=True)
class _Doubt:
    """Chunks of a partition that are not the same everywhere. `gone`: brokers that could be read once and not again."""

    subject: Subject
    case: Case
    width: int
    numbers: list[int]
    gone: set[int] = field(default_factory=set)

    @property
    def logs(self) -> list[ReplicaLog]:
        return [log for log in self.case.logs if log.broker not in self.gone]

    def narrow(self, width: int, numbers: Sequence[int]) -> None:
        self.width, self.numbers = width, list(numbers[:MOST_CHUNKS])
        self.case.unexplained += len(numbers[MOST_CHUNKS:])

    def wanted(self, width: int = 0) -> Iterator[tuple[int, Chunks]]:
        for replica in self.subject.replicas:
            for piece in replica.pieces:
                chunks = pieces.narrowed(piece, self.numbers, self.width)
                if chunks is not None:
                    yield replica.known.broker, replace(chunks, width=width)

    def read(self, broker: int, *, is_whole: bool) -> None:
        log = self.case.log(broker)
        if not is_whole and not log.trouble:
            self.gone.add(broker)
            log.trouble.append(GONE)


def _compare_batches(pairs: Sequence[tuple[Subject, Case]], run: Run, tell: Callable[[str], None]) -> None:
    """The chunks that differ: divided until they are small, then batch by batch."""
    doubts = []
    for subject, case in pairs:
        doubt = _Doubt(subject, case, subject.width, [])
        doubt.narrow(subject.width, suspicious(case.logs, subject.width))
        doubts += [doubt] if doubt.numbers else []
    if doubts:
        tell(f"looking into {sum(len(doubt.numbers) for doubt in doubts)} chunks that are not the same everywhere")
    while wide := [doubt for doubt in doubts if doubt.numbers and doubt.width > LEAST_WIDTH]:
        _divide(wide, run)
    _look(doubts, run)


def _divide(doubts: Sequence[_Doubt], run: Run) -> None:
    asked, answers = _asked(doubts, run, pieces.divided, [max(FINEST, doubt.width // PARTS) for doubt in doubts])
    parts: dict[int, dict[int, dict[int, Chunk]]] = {place: {} for place in range(len(doubts))}
    for (place, broker, _), (found, is_whole) in zip(asked, answers, strict=True):
        doubts[place].read(broker, is_whole=is_whole)
        own = parts[place].setdefault(broker, {})
        for number, chunk in found.items():
            own[number] = added(own.get(number), chunk)
    for place, doubt in enumerate(doubts):
        width = max(FINEST, doubt.width // PARTS)
        doubt.narrow(width, suspicious(doubt.logs, width, parts[place]))


def _look(doubts: Sequence[_Doubt], run: Run) -> None:
    asked, answers = _asked(doubts, run, pieces.rows, [0] * len(doubts))
    rows: dict[int, dict[int, dict[int, bytes]]] = {place: {} for place in range(len(doubts))}
    for (place, broker, _), (found, is_whole) in zip(asked, answers, strict=True):
        doubts[place].read(broker, is_whole=is_whole)
        own = rows[place].setdefault(broker, {})
        for number, content in found.items():
            own[number] = own.get(number, b"") + content
    for place, doubt in enumerate(doubts):
        doubt.case.differences = differences(doubt.logs, rows[place], doubt.numbers)


def _asked(
    doubts: Sequence[_Doubt], run: Run, function: Callable[[Chunks], Any], widths: Sequence[int]
) -> tuple[list[tuple[int, int, Chunks]], list[Any]]:
    """(place of the doubt, broker, chunks) and the answers."""
    asked = [
        (place, broker, chunks)
        for place, (doubt, width) in enumerate(zip(doubts, widths, strict=True))
        for broker, chunks in doubt.wanted(width)
    ]
    every = [chunks for _, _, chunks in asked]
    return asked, run(function, every, [chunks.piece.size for chunks in every]) if every else []


def _compare_keys(pairs: Sequence[tuple[Subject, Case]], run: Run, tell: Callable[[str], None]) -> None:
    """Compacted partitions: buckets of keys below the ends of each two replicas first, then the keys of those that
    differ."""
    ends = [{log.broker: max(log.end, 0) for log in case.logs if not log.trouble} for _, case in pairs]
    wanted = [
        Keys(_plain(replica), tuple(sorted({end for end in own.values() if end <= own[replica.known.broker]})))
        for (subject, _), own in zip(pairs, ends, strict=True)
        for replica in subject.replicas
        if replica.known.broker in own
    ]
    if not wanted:
        return
    tell(f"comparing the last values of {len(pairs)} compacted partitions")
    digests = iter(run(pieces.key_digests, wanted, _sizes(wanted)))
    doubtful: list[tuple[Case, list[Replica], frozenset[int]]] = []
    for (subject, case), own in zip(pairs, ends, strict=True):
        told = {replica.known.broker: next(digests) for replica in subject.replicas if replica.known.broker in own}
        buckets = keys.differing({broker: each for broker, each in told.items() if each is not None}, own)
        if buckets:
            there = [replica for replica in subject.replicas if replica.known.broker in own]
            doubtful.append((case, there, frozenset(buckets[:MOST_BUCKETS])))
    _compare_values(doubtful, run)


def _compare_values(doubtful: Sequence[tuple[Case, list[Replica], frozenset[int]]], run: Run) -> None:
    wanted = [Keys(_plain(replica), buckets=buckets) for _, there, buckets in doubtful for replica in there]
    lasts = iter(run(pieces.last_values, wanted, _sizes(wanted)) if wanted else ())
    for case, there, _ in doubtful:
        told = {replica.known.broker: next(lasts) for replica in there}
        told = {broker: each for broker, each in told.items() if each is not None}
        case.key_differences = list(keys.contradictions(case.logs, told))


def _plain(replica: Replica) -> tuple[pieces.Piece, ...]:
    """Its pieces, without what only the first look at them needs."""
    return tuple(replace(piece, acknowledged=(), checks_indexes=False) for piece in replica.pieces)


def _sizes(wanted: Iterable[Keys]) -> list[int]:
    return [sum(piece.size for piece in each.pieces) for each in wanted]
