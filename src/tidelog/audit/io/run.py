"""Runs the audit from a plan to a report, wherever its tasks run."""

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
"""The maximum of differing chunks that are examined per partition, lowest first."""
MOST_BUCKETS = 16
"""The maximum of differing buckets of keys that are examined per partition."""
PARTS = 256
FINEST = 1024
"""A differing chunk is divided into PARTS, but not below FINEST offsets: the driver holds the headers of all its
batches."""


UNREADABLE_NOW = "could not be read again, so it was not compared batch by batch"


class Run(Protocol):
    """Maps one of the functions of `pieces` over items, in order; `sizes` in bytes help to balance the tasks."""

    def __call__(self, function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]: ...


def run_locally(function: Callable[[Any], Any], items: Sequence[Any], sizes: Sequence[int]) -> list[Any]:  # noqa: ARG001 (as `Run`)
    """Run in this process, one item after another."""
    return [function(item) for item in items]


def audit(plan: Plan, run: Run = run_locally, report_line: Callable[[str], None] = lambda _: None) -> Report:
    """Read everything, examine the differences, judge."""
    began = time.monotonic()
    all_pieces = [piece for subject in plan.subjects for replica in subject.replicas for piece in replica.pieces]
    report_line(f"reading {len(all_pieces)} pieces, {sum(piece.size for piece in all_pieces) / 1e6:,.1f} MB")
    scans = iter(run(pieces.scan, all_pieces, [piece.size for piece in all_pieces]))
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
    _compare_batches([pair for pair in pairs if not pair[0].is_compacted], run, report_line)
    _compare_keys([pair for pair in pairs if pair[0].is_compacted], run, report_line)
    return report(cases, plan.findings, seconds=time.monotonic() - began)


def confirmed(first: Report, audit_again: Callable[[list[str]], Report]) -> Report:
    """A report on a running cluster; `audit_again` audits the topics with broken partitions a second time.

    While leaders change, a log may be truncated between two reads of it, so only what is broken twice counts. Of topics
    that were audited twice the second result counts.
    """
    topics = sorted({view.topic for view in first.partitions if any(each.is_broken for each in first.of(view))})
    if not topics:
        return first
    second = audit_again(topics)
    before = {each.key for each in first.findings}
    kept = [each for each in first.findings if each.topic not in topics]
    again = [each for each in second.findings if each.topic in topics and (not each.is_broken or each.key in before)]
    counted = {each[:3] for each in again if not each.is_count}
    kept += [each for each in again if not each.is_count or each[:3] in counted]
    views = [view for view in first.partitions if view.topic not in topics] + list(second.partitions)
    views.sort(key=lambda view: (view.topic, view.partition))
    return Report(views, in_order(kept), first.seconds + second.seconds)


def _log(subject: Subject, replica: Replica, scans: Sequence[Any]) -> ReplicaLog:
    log = merge(replica.info, scans, gaps_allowed=subject.is_compacted)
    if replica.path is not None:
        try:
            log.checkpointed_epochs = folders.checkpointed_epochs(replica.path)
        except (CorruptLog, OSError) as error:
            log.trouble.append(str(error))
    return log


@dataclass(slots=True)
class _Suspect:
    """Chunks of a partition that differ between replicas. `unreadable`: brokers that could not be read again."""

    subject: Subject
    case: Case
    width: int
    numbers: list[int]
    unreadable: set[int] = field(default_factory=set)

    @property
    def logs(self) -> list[ReplicaLog]:
        return [log for log in self.case.logs if log.broker not in self.unreadable]

    def narrow(self, width: int, numbers: Sequence[int]) -> None:
        self.width, self.numbers = width, list(numbers[:MOST_CHUNKS])
        self.case.unexplained += len(numbers[MOST_CHUNKS:])

    def wanted(self, width: int = 0) -> Iterator[tuple[int, Chunks]]:
        for replica in self.subject.replicas:
            for piece in replica.pieces:
                chunks = pieces.narrowed(piece, self.numbers, self.width)
                if chunks is not None:
                    yield replica.info.broker, replace(chunks, width=width)

    def read(self, broker: int, *, is_whole: bool) -> None:
        log = self.case.log(broker)
        if not is_whole and not log.trouble:
            self.unreadable.add(broker)
            log.trouble.append(UNREADABLE_NOW)


def _compare_batches(pairs: Sequence[tuple[Subject, Case]], run: Run, report_line: Callable[[str], None]) -> None:
    """Divide the chunks that differ until they are small, then compare them batch by batch."""
    suspects = []
    for subject, case in pairs:
        suspect = _Suspect(subject, case, subject.width, [])
        suspect.narrow(subject.width, suspicious(case.logs, subject.width))
        suspects += [suspect] if suspect.numbers else []
    if suspects:
        report_line(f"examining {sum(len(each.numbers) for each in suspects)} chunks that differ between replicas")
    while wide := [suspect for suspect in suspects if suspect.numbers and suspect.width > LEAST_WIDTH]:
        _divide(wide, run)
    _compare_headers(suspects, run)


def _divide(suspects: Sequence[_Suspect], run: Run) -> None:
    requests, answers = _map_chunks(
        suspects, run, pieces.divided, [max(FINEST, suspect.width // PARTS) for suspect in suspects]
    )
    parts: dict[int, dict[int, dict[int, Chunk]]] = {index: {} for index in range(len(suspects))}
    for (index, broker, _), (found, is_whole) in zip(requests, answers, strict=True):
        suspects[index].read(broker, is_whole=is_whole)
        own = parts[index].setdefault(broker, {})
        for number, chunk in found.items():
            own[number] = added(own.get(number), chunk)
    for index, suspect in enumerate(suspects):
        width = max(FINEST, suspect.width // PARTS)
        suspect.narrow(width, suspicious(suspect.logs, width, parts[index]))


def _compare_headers(suspects: Sequence[_Suspect], run: Run) -> None:
    requests, answers = _map_chunks(suspects, run, pieces.rows, [0] * len(suspects))
    rows: dict[int, dict[int, dict[int, bytes]]] = {index: {} for index in range(len(suspects))}
    for (index, broker, _), (found, is_whole) in zip(requests, answers, strict=True):
        suspects[index].read(broker, is_whole=is_whole)
        own = rows[index].setdefault(broker, {})
        for number, content in found.items():
            own[number] = own.get(number, b"") + content
    for index, suspect in enumerate(suspects):
        suspect.case.differences = differences(suspect.logs, rows[index], suspect.numbers)


def _map_chunks(
    suspects: Sequence[_Suspect], run: Run, function: Callable[[Chunks], Any], widths: Sequence[int]
) -> tuple[list[tuple[int, int, Chunks]], list[Any]]:
    """(index of the suspect, broker, chunks) and the answers."""
    requests = [
        (index, broker, chunks)
        for index, (suspect, width) in enumerate(zip(suspects, widths, strict=True))
        for broker, chunks in suspect.wanted(width)
    ]
    all_pieces = [chunks for _, _, chunks in requests]
    return requests, run(function, all_pieces, [chunks.piece.size for chunks in all_pieces]) if all_pieces else []


def _compare_keys(pairs: Sequence[tuple[Subject, Case]], run: Run, report_line: Callable[[str], None]) -> None:
    """Compare compacted partitions: first buckets of keys below the ends of each two replicas, then the keys of buckets
    that differ."""
    ends = [{log.broker: max(log.end, 0) for log in case.logs if not log.trouble} for _, case in pairs]
    wanted = [
        Keys(_plain(replica), tuple(sorted({end for end in own.values() if end <= own[replica.info.broker]})))
        for (subject, _), own in zip(pairs, ends, strict=True)
        for replica in subject.replicas
        if replica.info.broker in own
    ]
    if not wanted:
        return
    report_line(f"comparing the last values of {len(pairs)} compacted partitions")
    digests = iter(run(pieces.key_digests, wanted, _sizes(wanted)))
    doubtful: list[tuple[Case, list[Replica], frozenset[int]]] = []
    for (subject, case), own in zip(pairs, ends, strict=True):
        before = {replica.info.broker: next(digests) for replica in subject.replicas if replica.info.broker in own}
        buckets = keys.differing({broker: each for broker, each in before.items() if each is not None}, own)
        if buckets:
            there = [replica for replica in subject.replicas if replica.info.broker in own]
            doubtful.append((case, there, frozenset(buckets[:MOST_BUCKETS])))
    _compare_values(doubtful, run)


def _compare_values(doubtful: Sequence[tuple[Case, list[Replica], frozenset[int]]], run: Run) -> None:
    wanted = [Keys(_plain(replica), buckets=buckets) for _, there, buckets in doubtful for replica in there]
    lasts = iter(run(pieces.last_values, wanted, _sizes(wanted)) if wanted else ())
    for case, there, _ in doubtful:
        before = {replica.info.broker: next(lasts) for replica in there}
        before = {broker: each for broker, each in before.items() if each is not None}
        case.key_differences = list(keys.contradictions(case.logs, before))


def _plain(replica: Replica) -> tuple[pieces.Piece, ...]:
    """Its pieces, without what only the first pass over them needs."""
    return tuple(replace(piece, acknowledged=(), checks_indexes=False) for piece in replica.pieces)


def _sizes(wanted: Iterable[Keys]) -> list[int]:
    return [sum(piece.size for piece in each.pieces) for each in wanted]
