"""The audit from a plan to a report, wherever its tasks run."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tidelog.audit import keys
from tidelog.audit.comparing import differences, suspicious
from tidelog.audit.finding import in_order
from tidelog.audit.judging import Case
from tidelog.audit.merging import ReplicaLog, merge
from tidelog.audit.report import Report, report
from tidelog.errors import CorruptLog
from tidelog.shell.auditing import folders, pieces
from tidelog.shell.auditing.pieces import Keys
from tidelog.shell.auditing.plan import Plan, Replica, Subject

MOST_CHUNKS = 64
"""Of a partition so many chunks that differ are looked into, the first ones."""


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


def confirmed(first: Report, again: Callable[[list[str]], Report]) -> Report:
    """A report on a cluster that runs, of which `again` audits some topics once more: while leaders change, a log may
    be cut between two looks at it, so what is broken must be so twice. The second look counts where there is one."""
    topics = sorted({view.topic for view in first.partitions if any(each.is_broken for each in first.of(view))})
    if not topics:
        return first
    second = again(topics)
    told = {each.key for each in first.findings}
    kept = [each for each in first.findings if each.topic not in topics]
    kept += [each for each in second.findings if each.topic in topics and (not each.is_broken or each.key in told)]
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


def _compare_batches(pairs: Sequence[tuple[Subject, Case]], run: Run, tell: Callable[[str], None]) -> None:
    """The chunks that differ, batch by batch."""
    numbers = [suspicious(case.logs, subject.width) for subject, case in pairs]
    wanted = [
        (place, replica.known.broker, chunks)
        for place, (subject, _) in enumerate(pairs)
        if numbers[place]
        for replica in subject.replicas
        for piece in replica.pieces
        if (chunks := pieces.narrowed(piece, numbers[place][:MOST_CHUNKS])) is not None
    ]
    if not wanted:
        return
    tell(f"looking into {sum(map(len, numbers))} chunks that are not the same everywhere")
    answers = run(pieces.rows, [chunks for _, _, chunks in wanted], [chunks.piece.size for _, _, chunks in wanted])
    rows: dict[int, dict[int, dict[int, bytes]]] = {}
    gone: set[tuple[int, int]] = set()
    for (place, broker, _), (answer, is_whole) in zip(wanted, answers, strict=True):
        own = rows.setdefault(place, {}).setdefault(broker, {})
        log = pairs[place][1].log(broker)
        if not is_whole and not log.trouble:
            gone.add((place, broker))
            log.trouble.append(GONE)
        for number, content in answer.items():
            own[number] = own.get(number, b"") + content
    for place, found in rows.items():
        _, case = pairs[place]
        there = [log for log in case.logs if (place, log.broker) not in gone]
        case.differences = differences(there, found, numbers[place][:MOST_CHUNKS])
        case.unexplained = len(numbers[place][MOST_CHUNKS:])


def _compare_keys(pairs: Sequence[tuple[Subject, Case]], run: Run, tell: Callable[[str], None]) -> None:
    """Compacted partitions: buckets of keys first, then the keys of those that differ."""
    wanted = [Keys(_plain(replica)) for subject, _ in pairs for replica in subject.replicas]
    if not wanted:
        return
    tell(f"comparing the last values of {len(pairs)} compacted partitions")
    digests = iter(run(pieces.key_digests, wanted, _sizes(wanted)))
    again: list[Keys] = []
    doubtful: list[tuple[Subject, Case]] = []
    for subject, case in pairs:
        found = {replica.known.broker: next(digests) for replica in subject.replicas}
        buckets = frozenset(keys.differing({broker: each for broker, each in found.items() if each is not None}))
        if buckets:
            doubtful.append((subject, case))
            again += [Keys(_plain(replica), buckets) for replica in subject.replicas]
    lasts = iter(run(pieces.last_values, again, _sizes(again))) if again else iter(())
    for subject, case in doubtful:
        told = {replica.known.broker: next(lasts) for replica in subject.replicas}
        told = {broker: each for broker, each in told.items() if each is not None}
        case.key_differences = list(keys.contradictions(case.logs, told))


def _plain(replica: Replica) -> tuple[pieces.Piece, ...]:
    """Its pieces, without what only the first look at them needs."""
    return tuple(replace(piece, acknowledged=(), checks_indexes=False) for piece in replica.pieces)


def _sizes(wanted: Iterable[Keys]) -> list[int]:
    return [sum(piece.size for piece in each.pieces) for each in wanted]
