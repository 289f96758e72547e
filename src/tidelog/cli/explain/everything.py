"""The whole cluster: every rule about everything, and what many partitions share said once."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tidelog.cli.explain.brokers import broker_findings, cluster_findings
from tidelog.cli.explain.evidence import Evidence
from tidelog.cli.explain.finding import Connected, Finding
from tidelog.cli.explain.partitions import partition_findings
from tidelog.cli.explain.topics import deletion

MOST_ALIKE = 3
"""More partitions in the same state are one finding, with the first as an example."""


def all_findings(evidence: Evidence, tidelog: Connected) -> Iterator[Finding]:
    yield from cluster_findings(evidence)
    for _, broker in sorted(evidence.brokers.items()):
        yield from broker_findings(evidence, broker, tidelog)
    for topic in sorted(evidence.deleting):
        yield deletion(evidence, topic)
    found = [
        finding
        for _, seen in sorted(evidence.partitions.items())
        for finding in partition_findings(evidence, seen, tidelog)
    ]
    for _, alike in groupby(sorted(found, key=lambda finding: finding.kind), key=lambda finding: finding.kind):
        yield from _told(list(alike))


def _told(alike: list[Finding]) -> Iterator[Finding]:
    if len(alike) <= MOST_ALIKE:
        yield from alike
        return
    first = alike[0]
    yield replace(first, about=f"{first.about} and {len(alike) - 1} more")
