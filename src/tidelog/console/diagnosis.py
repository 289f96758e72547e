"""Everything that the console takes from `tidelog explain`: brokers' events, and the findings behind each "Why?"."""

from typing import Any

from tidelog.cli.explain.partition_timeline import SENTENCES, event_sentence
from tidelog.cli.options import CommandFailed
from tidelog.explain.core.commands import CommandLine, command_line, sentence
from tidelog.explain.core.diagnosis import diagnose
from tidelog.explain.core.evidence import BrokerEvent, Evidence
from tidelog.explain.core.finding import ORDER, Subject, SubjectKind
from tidelog.explain.gathering.reports import events_of
from tidelog.explain.io import cluster_evidence, group_evidence
from tidelog.shell.transport import Admin

__all__ = ["SENTENCES", "BrokerEvent", "SubjectKind", "command_line", "event_sentence", "events_of", "explained"]

WATCH_MS = 500
PATIENCE_MS = 1_500
"""A person waits for the answer; `tidelog explain` itself looks for longer."""


def explained(admin: Admin, kind: SubjectKind, name: str, complete: CommandLine) -> dict[str, Any]:
    """The findings about the cluster, or a topic, partition, broker or group, most severe first, and what could not be
    asked. Blocks."""
    evidence = _evidence(admin, kind, name)
    found = sorted(diagnose(evidence, Subject(kind, name)), key=lambda finding: ORDER[finding.severity])
    return {
        "findings": [
            {
                "severity": finding.severity,
                "about": str(finding.about),
                "says": finding.says,
                "because": list(finding.because),
                "helps": [sentence(advice, complete) for advice in finding.helps],
            }
            for finding in found
        ],
        "unanswered": list(evidence.unanswered),
    }


def _evidence(admin: Admin, kind: str, name: str) -> Evidence:
    if kind == "group":
        return group_evidence(admin, name, watch_ms=WATCH_MS, patience_ms=PATIENCE_MS)
    topic = {"topic": name, "partition": name.rpartition("-")[0]}.get(kind)
    evidence = cluster_evidence(
        admin,
        (lambda _: True) if topic is None else (lambda each: each == topic),
        topics=None if topic is None else [topic],
        watch_ms=WATCH_MS,
        patience_ms=PATIENCE_MS,
        group_patience_ms=PATIENCE_MS if kind == "cluster" else 0,
    )
    if kind == "broker" and int(name) not in evidence.brokers:
        raise CommandFailed(f"Broker {name} does not exist.")
    return evidence
