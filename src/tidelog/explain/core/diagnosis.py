"""The diagnosis: all rules, applied to the evidence about one subject or about the whole cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from tidelog.explain.core.broker_rules import broker_findings
from tidelog.explain.core.cluster_rules import cluster_findings, deletion_finding, throttle_findings, topic_findings
from tidelog.explain.core.evidence import Evidence
from tidelog.explain.core.finding import CLUSTER, ORDER, Finding, Subject
from tidelog.explain.core.group_rules import group_findings, stalled_findings
from tidelog.explain.core.partition_rules import partition_findings

MAX_ALIKE = 3
"""If more partitions than this have the same problem, one finding stands for all, with the first as an example."""


def diagnose(evidence: Evidence, subject: Subject = CLUSTER) -> list[Finding]:
    """What is wrong with the subject, the most severe first. What is wrong with the cluster itself (no controller, no
    metadata store) concerns every subject."""
    found = list(cluster_findings(evidence))
    if subject.kind == "cluster":
        found += _everything(evidence)
    elif subject.kind == "broker":
        broker = evidence.brokers.get(int(subject.name))
        found += () if broker is None else broker_findings(evidence, broker)
    elif subject.kind == "topic":
        found += topic_findings(evidence, subject.name)
        if subject.name not in evidence.deleting:
            found += (each for seen in evidence.of_topic(subject.name) for each in partition_findings(evidence, seen))
    elif subject.kind == "partition":
        found += _partition(evidence, subject)
    elif subject.kind == "group":
        group = evidence.groups.get(subject.name)
        found += () if group is None else group_findings(evidence, group)
    return sorted(found, key=lambda finding: ORDER[finding.severity])


def _partition(evidence: Evidence, subject: Subject) -> Iterable[Finding]:
    """Of a partition that does not exist: what is known of its topic."""
    for name, seen in evidence.partitions.items():
        if str(name) == subject.name:
            return (*partition_findings(evidence, seen), *throttle_findings(evidence, name.topic))
    return topic_findings(evidence, subject.name.rpartition("-")[0])


def _everything(evidence: Evidence) -> Iterator[Finding]:
    for _, broker in sorted(evidence.brokers.items()):
        yield from broker_findings(evidence, broker)
    for topic in sorted(evidence.deleting):
        yield deletion_finding(evidence, topic)
    for topic in sorted(evidence.throttled):
        yield from throttle_findings(evidence, topic)
    found = [
        finding
        for name, seen in sorted(evidence.partitions.items())
        if name.topic not in evidence.deleting
        for finding in partition_findings(evidence, seen)
    ]
    found += (each for _, group in sorted(evidence.groups.items()) for each in stalled_findings(evidence, group))
    for _, alike in groupby(sorted(found, key=_likeness), key=_likeness):
        yield from _summarized(list(alike))


def _likeness(finding: Finding) -> tuple[str, str]:
    return finding.kind, finding.severity


def _summarized(alike: list[Finding]) -> Iterator[Finding]:
    if len(alike) <= MAX_ALIKE:
        yield from alike
        return
    yield replace(alike[0], more=len(alike) - 1)
