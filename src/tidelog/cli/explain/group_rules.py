"""Why a group does not move: what it committed is compared with its topics, twice."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidelog.cli.admin_requests import EARLIEST, LATEST, Listed, list_offsets
from tidelog.cli.explain.evidence import Evidence
from tidelog.cli.explain.finding import Connected, Finding
from tidelog.cli.groups.group_requests import GroupState, Member, committed, coordinator_of, describe_group
from tidelog.errors import ApiError
from tidelog.model import NO_LEADER, TopicPartition
from tidelog.shell.transport import Admin

READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """Where a group is in one partition, at two moments."""

    partition: TopicPartition
    before: int
    position: int
    start: int
    end_before: int
    end: int
    stable: int
    member: Member | None

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)

    @property
    def stands(self) -> bool:
        return self.lag > 0 and self.position == self.before


@dataclass(frozen=True, slots=True)
class GroupSeen:
    state: GroupState
    coordinator: int
    places: list[GroupPosition] = field(default_factory=list)
    unread: list[TopicPartition] = field(default_factory=list)
    """Assigned, but nothing was committed yet."""


def look(admin: Admin, name: str, watch_s: float) -> GroupSeen:
    """The group, its positions and the ends of its partitions, `watch_s` seconds apart."""
    describe_group(admin, name)  # a group that does not exist is refused before anything is watched
    _, broker = coordinator_of(admin, name)
    before, ends_before = _positions(admin, name)
    time.sleep(watch_s)
    state = describe_group(admin, name)
    after, ends = _positions(admin, name)
    owners = {partition: member for member in state.members for partition in member.assigned}
    starts = list_offsets(admin, dict.fromkeys(after, EARLIEST))
    stable = list_offsets(admin, dict.fromkeys(after, LATEST), isolation=READ_COMMITTED)
    places = [
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
    return GroupSeen(state, broker, places, sorted(set(owners).difference(after)))


def _positions(admin: Admin, name: str) -> tuple[dict[TopicPartition, int], Mapping[TopicPartition, Listed]]:
    try:
        positions = {partition: each.offset for partition, each in committed(admin, name).items()}
    except ApiError:
        return {}, {}
    return positions, list_offsets(admin, dict.fromkeys(positions, LATEST), rounds=1)


def group_findings(evidence: Evidence, seen: GroupSeen, tidelog: Connected) -> Iterator[Finding]:
    name = seen.state.name
    about = f"group {name}"
    waiting = sum(place.lag for place in seen.places)
    if seen.state.state == "Empty":
        says = (
            f"No member runs; {waiting} records wait for it." if waiting else "No member runs; it has read everything."
        )
        helps = [f"Start a consumer with group.id={name}."]
        yield Finding("warning" if waiting else "note", "group.empty", about, says, [], helps)
    elif seen.state.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        says = f"It is rebalancing ({seen.state.state}), and reads nothing meanwhile."
        because = [f"Member {each.client_id} on {each.host}." for each in seen.state.members]
        helps = ["A member that is busy for long joins late: shorten its work between polls or max.poll.records."]
        yield Finding("warning", "group.rebalancing", about, says, because, helps)
    for place in seen.places:
        yield from _place(evidence, seen, place, about, tidelog)
    for partition in seen.unread:
        says = f"It has committed nothing in {partition} yet."
        yield Finding("note", "group.no-position", about, says, [], ["It starts where auto.offset.reset says."])


def _place(
    evidence: Evidence, seen: GroupSeen, place: GroupPosition, about: str, tidelog: Connected
) -> Iterator[Finding]:
    at = f"{place.partition} at offset {place.position}"
    known = evidence.partitions.get(place.partition)
    if place.position < place.start or place.position > place.end:
        says = f"Its position in {at} is outside the log, which has {place.start} to {place.end}."
        helps = [
            "With auto.offset.reset=none its consumer stops there. Set the position: "
            + tidelog(
                f"groups --group {seen.state.name} --topic {place.partition.topic} "
                "--reset-offsets --to-earliest --execute"
            )
        ]
        yield Finding(
            "error", "group.out-of-range", about, says, ["Retention or a truncation took records away."], helps
        )
    elif place.stands and known is not None and known.leader == NO_LEADER:
        says = f"It cannot read {at}: the partition has no leader."
        helps = [f"See tidelog explain partition {place.partition}."]
        yield Finding("error", "group.offline", about, says, [], helps)
    elif place.stands and place.position >= place.stable:
        says = f"It stands in {at}, where an open transaction begins; {place.lag} records wait."
        helps = [f"See tidelog explain partition {place.partition}."]
        yield Finding("warning", "group.open-transaction", about, says, ["It reads committed records only."], helps)
    elif place.stands and place.member is not None:
        member = place.member
        says = f"It stands in {at}; {place.lag} records wait."
        because = [f"Member {member.client_id} on {member.host} has the partition and commits nothing."]
        helps = ["Look at that consumer: it is busy with one batch, does not commit, or polls no more."]
        yield Finding("warning", "group.stands", about, says, because, helps)
    elif place.stands and seen.state.members:
        says = f"Nobody reads {at}; {place.lag} records wait."
        because = ["No member has the partition: none is subscribed to its topic, or the assignment waits."]
        yield Finding("warning", "group.unassigned", about, says, because, ["Subscribe a member to the topic."])
    elif place.lag > 0 and seen.state.members and place.end - place.end_before > place.position - place.before:
        says = f"It falls behind in {at}: {place.lag} records wait, and more come than it reads."
        yield Finding("warning", "group.falls-behind", about, says, [], ["Add members, up to one for each partition."])
