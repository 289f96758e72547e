"""The result of the audit: plain data for the terminal, the page and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidelog.audit.core.finding import KINDS, Finding, in_order
from tidelog.audit.core.judging import Case, first_divergence, judge
from tidelog.audit.core.merging import ReplicaLog


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica: offsets [start, end), -1 for an empty log."""

    broker: int
    source: str
    folder: str
    start: int
    end: int
    high_watermark: int
    batches: int
    bytes: int
    segments: int
    in_sync: bool
    epochs: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class PartitionView:
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    is_compacted: bool
    acknowledged: int
    first_divergence: int
    replicas: list[ReplicaView]

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Report:
    partitions: list[PartitionView]
    findings: list[Finding]
    seconds: float = field(default=0.0, compare=False)
    """The duration: the only field in which two audits of the same bytes may differ."""

    @property
    def is_good(self) -> bool:
        return not any(each.is_broken for each in self.findings)

    @property
    def bytes(self) -> int:
        return sum(replica.bytes for partition in self.partitions for replica in partition.replicas)

    def of(self, partition: PartitionView) -> list[Finding]:
        return [each for each in self.findings if each[1:3] == (partition.topic, partition.partition)]

    def as_json(self) -> dict[str, Any]:
        return {
            "audit": "tidelog",
            "version": 1,
            "good": self.is_good,
            "seconds": round(self.seconds, 3),
            "bytes": self.bytes,
            "findings": [_finding(each) for each in self.findings],
            "partitions": [_partition(each) for each in self.partitions],
        }


def report(cases: Sequence[Case], others: Sequence[Finding] = (), *, seconds: float = 0.0) -> Report:
    """`others` are findings about folders and those reported by brokers."""
    views, findings = [], list(others)
    for case in sorted(cases, key=lambda each: each.name):
        found = list(judge(case))
        findings += found
        views.append(_view(case, found))
    return Report(views, in_order(findings), seconds)


def _view(case: Case, found: Sequence[Finding]) -> PartitionView:
    return PartitionView(
        *case.name,
        case.leader,
        case.leader_epoch,
        case.is_compacted,
        len(case.acknowledged),
        first_divergence(found),
        [_replica(log) for log in sorted(case.logs, key=lambda log: (log.broker, log.info.folder))],
    )


def _replica(log: ReplicaLog) -> ReplicaView:
    info = log.info
    return ReplicaView(
        info.broker,
        info.source,
        info.folder,
        log.start,
        log.end,
        info.high_watermark,
        log.batches,
        log.bytes,
        info.segments,
        info.in_sync,
        list(log.epochs),
    )


def _finding(each: Finding) -> dict[str, Any]:
    kind = KINDS[each.kind]
    return {**each._asdict(), "brokers": list(each.brokers), "invariant": kind.invariant, "broken": kind.is_broken}


def _partition(view: PartitionView) -> dict[str, Any]:
    names = ("topic", "partition", "leader", "leader_epoch", "acknowledged", "first_divergence")
    plain: dict[str, Any] = {name: getattr(view, name) for name in names}
    plain["compacted"] = view.is_compacted
    plain["replicas"] = [{name: getattr(replica, name) for name in ReplicaView.__slots__} for replica in view.replicas]
    return plain
