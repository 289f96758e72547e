"""Rules about consumer groups: committed offsets are compared with the logs' ends, twice."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.cli.admin_requests import EARLIEST, LATEST, ListedOffset, list_offsets
from tidelog.cli.explain.evidence import Evidence
from tidelog.cli.explain.finding import CommandLine, Finding
from tidelog.cli.groups.group_requests import GroupMember, GroupState, committed_offsets, coordinator_of, describe_group
from tidelog.errors import ApiError
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.shell.transport import Admin

READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offset in one partition and the log end offset, at two times; `stable` is the last stable
    offset."""

    partition: TopicPartition
    position_before: int
    position: int
    start: int
    end_before: int
    end: int
    stable: int
    member: GroupMember | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)

    @property
    def is_stuck(self) -> bool:
        return self.lag > 0 and self.position == self.position_before


@dataclass(frozen=True, slots=True)
class GroupEvidence:
    state: GroupState
    coordinator: int
    positions: list[GroupPosition] = field(default_factory=list)
    unread: list[TopicPartition] = field(default_factory=list)
    """Assigned partitions without a committed offset."""


def observe_group(admin: Admin, name: str, watch_s: float) -> GroupEvidence:
    """The group, with its positions and the ends of its partitions at two times, `watch_s` seconds apart."""
    describe_group(admin, name)  # raises before the wait if the group does not exist
    _, broker = coordinator_of(admin, name)
    before, ends_before = _positions(admin, name)
    time.sleep(watch_s)
    state = describe_group(admin, name)
    after, ends = _positions(admin, name)
    owners = {partition: member for member in state.members for partition in member.assigned}
    starts = list_offsets(admin, dict.fromkeys(after, EARLIEST))
    stable = list_offsets(admin, dict.fromkeys(after, LATEST), isolation=READ_COMMITTED)
    positions = [
        GroupPosition(
            partition,
            before.get(partition, position),
            position,
            starts[partition].offset,
            ends_before.get(partition, ends[partition]).offset,
            ends[partition].offset,
            stable[partition].offset,
            owners.get(partition),
        )
        for partition, position in sorted(after.items())
        if not ends[partition].error
    ]
    return GroupEvidence(state, broker, positions, sorted(set(owners).difference(after)))


def _positions(admin: Admin, name: str) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, ListedOffset]]:
    try:
        positions = {partition: each.offset for partition, each in committed_offsets(admin, name).items()}
    except ApiError:
        return {}, {}
    return positions, list_offsets(admin, dict.fromkeys(positions, LATEST), attempts=1)


def group_findings(evidence: Evidence, group: GroupEvidence, tidelog: CommandLine) -> Iterator[Finding]:
    name = group.state.name
    about = f"group {name}"
    lag = sum(position.lag for position in group.positions)
    if group.state.state == "Empty":
        says = f"It has no members; {lag} records are waiting." if lag else "It has no members; it has read everything."
        helps = [f"Start a consumer with group.id={name}."]
        yield Finding("warning" if lag else "note", "group.empty", about, says, [], helps)
    elif group.state.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        says = f"It is rebalancing ({group.state.state}) and does not read."
        because = [f"Member {each.client_id} on {each.host}." for each in group.state.members]
        helps = ["A busy member delays the rebalance: reduce its work between polls, or max.poll.records."]
        yield Finding("warning", "group.rebalancing", about, says, because, helps)
    for position in group.positions:
        yield from _position_findings(evidence, group, position, about, tidelog)
    for partition in group.unread:
        says = f"It has no committed offset in {partition}."
        yield Finding("note", "group.no-position", about, says, [], ["It starts according to auto.offset.reset."])


def _position_findings(
    evidence: Evidence, group: GroupEvidence, position: GroupPosition, about: str, tidelog: CommandLine
) -> Iterator[Finding]:
    at = f"{position.partition} at offset {position.position}"
    known = evidence.partitions.get(position.partition)
    if position.position < position.start or position.position > position.end:
        says = f"Its position, {at}, is out of range; the log has {position.start} to {position.end}."
        helps = [
            "With auto.offset.reset=none its consumer fails. Reset the offset: "
            + tidelog(
                f"groups --group {group.state.name} --topic {position.partition.topic} "
                "--reset-offsets --to-earliest --execute"
            )
        ]
        yield Finding("error", "group.out-of-range", about, says, ["Retention or truncation removed records."], helps)
    elif position.is_stuck and known is not None and known.leader == NO_LEADER:
        says = f"It cannot read {at}: the partition has no leader."
        helps = [f"See tidelog explain partition {position.partition}."]
        yield Finding("error", "group.offline", about, says, [], helps)
    elif position.is_stuck and position.position >= position.stable:
        says = f"It is stuck in {at}, where an open transaction begins; {position.lag} records are waiting."
        helps = [f"See tidelog explain partition {position.partition}."]
        yield Finding(
            "warning", "group.open-transaction", about, says, ["It is blocked if it reads with read_committed."], helps
        )
    elif position.is_stuck and position.member is not None:
        member = position.member
        says = f"It is stuck in {at}; {position.lag} records are waiting."
        because = [f"Member {member.client_id} on {member.host} has the partition but does not commit."]
        helps = ["Check that consumer: it is busy with one batch, does not commit, or has stopped polling."]
        yield Finding("warning", "group.stands", about, says, because, helps)
    elif position.is_stuck and group.state.members:
        says = f"No member reads {at}; {position.lag} records are waiting."
        because = ["The partition is not assigned: no member subscribes to its topic, or the assignment is pending."]
        yield Finding("warning", "group.unassigned", about, says, because, ["Subscribe a member to the topic."])
    elif (
        position.lag > 0
        and group.state.members
        and position.end - position.end_before > position.position - position.position_before
    ):
        says = f"It is falling behind in {at}: {position.lag} records are waiting, and their number grows."
        yield Finding("warning", "group.falls-behind", about, says, [], ["Add members, up to one per partition."])
