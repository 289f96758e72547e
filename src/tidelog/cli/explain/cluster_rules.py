"""Rules about brokers, the controller and topics, and all rules applied to the whole cluster."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tidelog.cli.explain.evidence import BrokerEvidence, Evidence, LogDir
from tidelog.cli.explain.finding import CommandLine, Finding, Severity, broker_list, duration, size
from tidelog.cli.explain.partition_rules import partition_findings
from tidelog.model import NO_LEADER

MAX_ALIKE = 3
"""If more partitions than this have the same problem, one finding stands for all, with the first as an example."""

FULL_SHARE = 0.05
SOON_MS = 24 * 3_600_000
RENEW_MS = 30 * 24 * 3_600_000
"""The remaining time of a certificate from which its end is reported."""


def all_findings(evidence: Evidence, tidelog: CommandLine) -> Iterator[Finding]:
    yield from cluster_findings(evidence)
    for _, broker in sorted(evidence.brokers.items()):
        yield from broker_findings(evidence, broker, tidelog)
    for topic in sorted(evidence.deleting):
        yield deletion_finding(evidence, topic)
    found = [
        finding
        for _, seen in sorted(evidence.partitions.items())
        for finding in partition_findings(evidence, seen, tidelog)
    ]
    for _, alike in groupby(sorted(found, key=lambda finding: finding.kind), key=lambda finding: finding.kind):
        yield from _summarized(list(alike))


def _summarized(alike: list[Finding]) -> Iterator[Finding]:
    if len(alike) <= MAX_ALIKE:
        yield from alike
        return
    first = alike[0]
    yield replace(first, about=f"{first.about} and {len(alike) - 1} more")


def broker_findings(evidence: Evidence, seen: BrokerEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    about = f"broker {seen.id}"
    if not seen.answers:
        yield _down(evidence, seen, about)
        return
    for folder in seen.folders:
        yield from _folder(about, folder)
    for listener, expires_ms in sorted(seen.facts.get("certificates", {}).items()):
        yield from _certificate(about, listener, expires_ms - evidence.now_ms)
    preferred = [each for each in evidence.partitions.values() if each.replicas[0] == seen.id]
    led_by_others = [each for each in preferred if each.leader not in (seen.id, NO_LEADER)]
    in_sync = [each for each in led_by_others if seen.id in each.isr]
    if in_sync:
        led = len(preferred) - len(led_by_others)
        says = f"It leads {led} of the {len(preferred)} partitions that it is the preferred leader of."
        because = [f"It is in sync in {len(in_sync)} of the partitions that other brokers lead."]
        helps = [f"Elect it: {tidelog('leader-election --election-type preferred --all-topic-partitions')}"]
        yield Finding("note", "broker.leads-too-little", about, says, because, helps)


def _down(evidence: Evidence, seen: BrokerEvidence, about: str) -> Finding:
    gone = evidence.last_event("broker.gone", broker=seen.id)
    because = [f"The controller lost it {duration(evidence.now_ms - gone.wall_ms)} ago."] if gone else []
    if seen.address:
        because.append(f"It is registered at {seen.address}, but does not answer.")
    held = [each for each in evidence.partitions.values() if seen.id in each.replicas]
    alone = [each for each in held if each.leader == NO_LEADER]
    if held:
        because.append(f"{len(held)} partitions have a replica on it; {len(alone)} of them have no leader.")
    severity: Severity = "error" if alone or not held else "warning"
    return Finding(severity, "broker.down", about, "It is down.", because, [f"Start broker {seen.id}."])


def _folder(about: str, folder: LogDir) -> Iterator[Finding]:
    if folder.trouble:
        says = f"Its log directory {folder.path} is offline ({folder.trouble})."
        helps = ["Repair or replace the disk, then restart the broker; it fetches missing data from other replicas."]
        yield Finding(
            "error",
            "broker.folder-offline",
            about,
            says,
            ["The disk returned an error, which is in the broker's log."],
            helps,
        )
        return
    if folder.total_bytes <= 0:
        return
    left_ms = 1000 * folder.usable_bytes / folder.growth_per_s if folder.growth_per_s > 0 else None
    if folder.usable_bytes < FULL_SHARE * folder.total_bytes or (left_ms is not None and left_ms < SOON_MS):
        free, total = size(folder.usable_bytes), size(folder.total_bytes)
        says = f"The disk of {folder.path} is filling up: {free} of {total} are free."
        because = (
            []
            if left_ms is None
            else [f"Free space shrinks by {size(folder.growth_per_s)}/s; the disk is full in {duration(left_ms)}."]
        )
        helps = ["Lower retention.ms or retention.bytes of large topics, or move replicas away."]
        yield Finding("warning", "broker.disk-fills", about, says, because, helps)


def _certificate(about: str, listener: str, left_ms: int) -> Iterator[Finding]:
    if left_ms > RENEW_MS:
        return
    helps = [f"Replace the key store of listener {listener}; the broker reads the file again at the next connection."]
    if left_ms > 0:
        says = f"The certificate of its listener {listener} expires in {duration(left_ms)}."
        because = ["After that, clients and other brokers refuse to connect to it."]
        yield Finding("warning", "broker.certificate-expires", about, says, because, helps)
    else:
        says = f"The certificate of its listener {listener} expired {duration(-left_ms)} ago."
        because = ["Clients refuse to connect to it. Open connections go on."]
        yield Finding("error", "broker.certificate-expired", about, says, because, helps)


def cluster_findings(evidence: Evidence) -> Iterator[Finding]:
    reports = [seen.facts["controller"] for seen in evidence.brokers.values() if "controller" in seen.facts]
    # Metadata always names a broker, since any broker accepts requests for the controller: only reports show who leads.
    if evidence.controller == NO_LEADER or (reports and not any(report.get("leading") for report in reports)):
        elected = evidence.last_event("controller.elected")
        because = [] if elected is None else [f"The last controller was broker {elected.broker}."]
        says = "There is no controller: leaders cannot be elected, and topics cannot be created."
        helps = ["Look for store.unreachable in the brokers' logs: at least one broker must reach the metadata store."]
        yield Finding("error", "cluster.no-controller", "cluster", says, because, helps)
    claims = [seen.id for seen in evidence.brokers.values() if seen.facts.get("controller", {}).get("leading")]
    if len(claims) > 1:
        says = f"{broker_list(claims).capitalize()} act as controller; brokers follow the one with the highest epoch."
        yield Finding("warning", "cluster.two-controllers", "cluster", says, [], ["It resolves by itself."])


def topic_findings(evidence: Evidence, topic: str, tidelog: CommandLine) -> Iterator[Finding]:
    """Findings about a topic, whether it exists, is being deleted or is unknown."""
    if topic in evidence.deleting:
        yield deletion_finding(evidence, topic)
        return
    partitions = list(evidence.of_topic(topic))
    if not partitions:
        yield _unknown(evidence, topic, tidelog)
    for seen in partitions:
        yield from partition_findings(evidence, seen, tidelog)


def deletion_finding(evidence: Evidence, topic: str) -> Finding:
    """The finding about a topic that is marked for deletion but still exists."""
    about = f"topic {topic}"
    marked = evidence.last_event("topic.deleting", topic=topic)
    since = f" for {duration(evidence.now_ms - marked.wall_ms)}" if marked else ""
    says = f"It has been waiting for deletion{since}; its name cannot be reused until all replicas are deleted."
    because, helps = [], []
    waiting = list(evidence.deleting[topic])
    dead = [broker for broker in waiting if not evidence.is_alive(broker)]
    if dead:
        because.append(f"{broker_list(dead).capitalize()} held replicas and {'is' if len(dead) == 1 else 'are'} down.")
        helps.append(f"Start {broker_list(dead)}; the deletion then resumes by itself.")
        helps.append(
            f"If that is impossible, remove the folders {topic}-* there, then the nodes "
            f"/admin/delete_topics/{topic} and /controller with tidelog metadata rm."
        )
    for broker in waiting:
        for folder in evidence.brokers[broker].folders if broker in evidence.brokers else ():
            if folder.trouble:
                because.append(f"Broker {broker} cannot delete replicas in {folder.path}, which is offline.")
                helps.append(f"Repair {folder.path}, and restart broker {broker}.")
    moving = [str(name) for name in sorted(evidence.moves) if name.topic == topic]
    if moving:
        because.append(f"A reassignment of {', '.join(moving)} is in progress, and the deletion waits for it.")
        helps.append("Wait, or cancel it: tidelog reassign-partitions --cancel.")
    if not because:
        because.append(f"{broker_list(waiting).capitalize()} is deleting now.")
    return Finding("warning", "topic.deletion-waits", about, says, because, helps)


def _unknown(evidence: Evidence, topic: str, tidelog: CommandLine) -> Finding:
    gone = evidence.last_event("topic.deleted", topic=topic)
    because = [f"It was deleted {duration(evidence.now_ms - gone.wall_ms)} ago."] if gone else []
    helps = [f"Create it: {tidelog(f'topics --create --topic {topic}')}"]
    return Finding("error", "topic.unknown", f"topic {topic}", "The topic does not exist.", because, helps)
