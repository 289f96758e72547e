"""After a chaos run: what the replicas hold, beside what clients saw."""

from collections.abc import Iterator
from pathlib import Path

from tidelog.audit.acknowledged import of_history
from tidelog.audit.report import Report
from tidelog.history.text import parse
from tidelog.shell.auditing import cluster, fetching, run
from tidelog.shell.transport import Admin

ANSWER_MS = 30_000


def audit(bootstrap: str, history: Path) -> Report:
    """Every partition's replicas as they are on their brokers' disks. ApiError where the cluster does not answer."""
    with history.open(encoding="utf-8") as lines:
        acknowledged = of_history(parse(lines))
    try:
        with Admin(bootstrap, default_api_timeout_ms=ANSWER_MS) as admin:
            way = cluster.Way(bootstrap, from_folders=True)

            def look(topics: list[str]) -> Report:
                return run.audit(cluster.plan(admin, way, topics=topics, acknowledged=acknowledged))

            return run.confirmed(look([]), look)
    finally:
        fetching.close()


def problems(report: Report) -> Iterator[str]:
    """A sentence for each thing that is broken."""
    for each in report.findings:
        if each.is_broken:
            who = f", broker {', '.join(map(str, each.brokers))}" if each.brokers else ""
            yield f"replicas: {each.kind} in {each.place}{who}: {each.sentence}"
