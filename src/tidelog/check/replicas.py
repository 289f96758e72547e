"""Audits the replicas of a cluster against the history of a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from tidelog.audit.core.acknowledged import Acknowledged
from tidelog.audit.core.report import Report
from tidelog.audit.io import cluster, fetching, run
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import OK, History
from tidelog.check.history.text import parse
from tidelog.model import TopicPartition
from tidelog.shell.transport import Admin

ANSWER_MS = 30_000


def acknowledged_records(history: History) -> dict[TopicPartition, list[Acknowledged]]:
    """The acknowledged records of a history and their offsets, in order."""
    facts = Facts(history)
    found: dict[TopicPartition, list[Acknowledged]] = {}
    for key, writes in facts.writes.items():
        name = TopicPartition(*history.header.partitions[key])
        found[name] = sorted(
            Acknowledged(write.offset, crc32(str(value).encode()))
            for value, write in writes.items()
            if write.fate == OK and write.offset is not None
        )
    return found


def audit(bootstrap: str, history: Path, client: Mapping[str, Any]) -> Report:
    """Audit all replicas as they are on their brokers' disks. `client` are options of every client. ApiError if the
    cluster does not answer."""
    with history.open(encoding="utf-8") as lines:
        acknowledged = acknowledged_records(parse(lines))
    try:
        with Admin(bootstrap, **{**client, "default_api_timeout_ms": ANSWER_MS}) as admin:
            access = cluster.ClusterAccess(bootstrap, client, from_folders=True)

            def audit_topics(topics: list[str]) -> Report:
                return run.audit(cluster.plan(admin, access, topics=topics, acknowledged=acknowledged))

            return run.confirmed(audit_topics([]), audit_topics)
    finally:
        fetching.close()


def problems(report: Report) -> Iterator[str]:
    """A sentence for each finding that is an error."""
    for each in report.findings:
        if each.is_broken:
            who = f", broker {', '.join(map(str, each.brokers))}" if each.brokers else ""
            yield f"replicas: {each.kind} in {each.location}{who}: {each.sentence}"
