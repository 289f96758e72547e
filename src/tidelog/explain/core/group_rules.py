"""Rules about consumer groups: committed offsets are compared with the logs' ends, twice."""

from collections.abc import Iterator

from tidelog.explain.core.evidence import Evidence, GroupEvidence, GroupPosition
from tidelog.explain.core.finding import Advice, Finding, Subject, duration
from tidelog.model import TopicPartition

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def group_findings(evidence: Evidence, group: GroupEvidence) -> Iterator[Finding]:
    name, subject = group.state.name, _subject(group)
    lag = sum(position.lag for position in group.positions)
    if group.state.state == "Empty":
        says = f"It has no members; {lag} records are waiting." if lag else "It has no members; it has read everything."
        helps = [Advice(f"Start a consumer with group.id={name}.")]
        yield Finding("warning" if lag else "note", "group.empty", subject, says, [], helps)
    elif group.state.state in REBALANCING and group.was_rebalancing:
        says = f"It is rebalancing ({group.state.state}) and does not read."
        because = [f"Member {each.client_id} on {each.host}." for each in group.state.members]
        helps = [Advice("A busy member delays the rebalance: reduce its work between polls, or max.poll.records.")]
        yield Finding("warning", "group.rebalancing", subject, says, because, helps)
    for position in group.positions:
        yield from _position_findings(evidence, group, position)
    for partition, records in group.unread.items():
        yield _without_position(subject, partition, records)


def _without_position(subject: Subject, partition: TopicPartition, records: int | None) -> Finding:
    says = f"It has no committed offset in {partition}."
    because = []
    if records:
        says = f"It has no committed offset in {partition}, which has {records} records."
        because.append("Its consumer does not commit, is busy with its first records, or has read none yet.")
    helps = [Advice("Without a committed offset, a consumer starts according to auto.offset.reset.")]
    return Finding("note", "group.no-position", subject, says, because, helps)


def stalled_findings(evidence: Evidence, group: GroupEvidence) -> Iterator[Finding]:
    """What is said of a group in a diagnosis of the whole cluster: a group without members is no problem of the
    cluster, and its consumers may be away on purpose."""
    if group.state.state != "Empty":
        yield from (finding for finding in group_findings(evidence, group) if finding.is_problem)


def _position_findings(evidence: Evidence, group: GroupEvidence, position: GroupPosition) -> Iterator[Finding]:
    subject = _subject(group)
    at = f"{position.partition} at offset {position.position}"
    known = evidence.partitions.get(position.partition)
    see = Advice("See that partition:", f"explain partition {position.partition}")
    if position.position < position.start or position.position > position.end:
        says = f"Its position, {at}, is out of range; the log has {position.start} to {position.end}."
        topic = position.partition.topic
        reset = f"groups --group {group.state.name} --topic {topic} --reset-offsets --to-earliest --execute"
        helps = [Advice("With auto.offset.reset=none its consumer fails. Reset the offset:", reset)]
        because = ["Retention or truncation removed records."]
        yield Finding("error", "group.out-of-range", subject, says, because, helps)
    elif known is not None and not evidence.is_alive(known.leader):
        says = f"It cannot read {at}: the partition has no leader that answers."
        yield Finding("error", "group.offline", subject, says, [], [see])
    elif position.is_stuck and position.position >= position.stable:
        says = f"It is stuck in {at}, where an open transaction begins; {position.lag} records are waiting."
        because = ["It is blocked if it reads with read_committed."]
        yield Finding("warning", "group.open-transaction", subject, says, because, [see])
    elif position.is_stuck and position.member is not None:
        member = position.member
        says = f"It is stuck in {at}; {position.lag} records are waiting."
        watched = duration(group.watched_ms)
        because = [f"Member {member.client_id} on {member.host} has the partition, but did not commit for {watched}."]
        check = "Check that consumer: it is busy with one batch, does not commit, or has stopped polling."
        yield Finding("warning", "group.stands", subject, says, because, [Advice(check)])
    elif position.is_stuck and group.state.members:
        says = f"No member reads {at}; {position.lag} records are waiting."
        because = ["The partition is not assigned: no member subscribes to its topic, or the assignment is pending."]
        helps = [Advice("Subscribe a member to the topic.")]
        yield Finding("warning", "group.unassigned", subject, says, because, helps)
    elif position.lag > position.lag_before and position.moved and group.state.members:
        says = f"It is falling behind in {at}: {position.lag} records are waiting, and their number grows."
        helps = [Advice("Add members, up to one per partition.")]
        yield Finding("note", "group.falls-behind", subject, says, [], helps)


def _subject(group: GroupEvidence) -> Subject:
    return Subject("group", group.state.name)
