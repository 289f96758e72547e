"""Consumer groups: their members, and their positions at two times.

A group whose positions stand still although records wait is watched longer: consumers commit every five seconds by
default, and one that is well must not be reported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.client.group.described import GroupMember, GroupState, classic_group, consumer_group
from tidelog.client.results import code_of
from tidelog.errors import ApiError, ErrorCode
from tidelog.explain.core.evidence import Evidence, GroupEvidence, GroupPosition
from tidelog.explain.core.group_rules import REBALANCING
from tidelog.explain.gathering.asking import (
    EARLIEST,
    LATEST,
    Ask,
    Pause,
    Steps,
    ask_all,
    by_leader,
    list_offsets,
    listed_offsets,
)
from tidelog.explain.gathering.look import Look
from tidelog.model import TopicPartition
from tidelog.wire.messages.groups.committed_offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from tidelog.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from tidelog.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.groups.group_admin import DescribeGroupsRequest

NEWEST_VERSION_BY_NAME = 9
"""The newest version of OffsetFetch with topic names; later versions have topic IDs."""
PLAIN_PROTOCOLS = ("", "consumer")
"""Protocol types of consumer groups; groups of Connect and others are not watched."""
MAX_GROUPS = 500
STEP_MS = 500
LOOKUPS, LOOKUP_PAUSE_MS = 20, 250
READ_COMMITTED = 1

Positions = dict[TopicPartition, int]


@dataclass(slots=True)
class Watch:
    """What was seen of one group."""

    state: GroupState
    positions: Positions = field(default_factory=dict)
    ends: Positions = field(default_factory=dict)

    @property
    def owners(self) -> dict[TopicPartition, GroupMember]:
        return {partition: member for member in self.state.members for partition in member.assigned}

    @property
    def is_rebalancing(self) -> bool:
        return self.state.state in REBALANCING


def groups_in(look: Look) -> dict[str, int]:
    """The consumer groups that brokers listed, and their coordinators."""
    return {
        group.group_id: broker
        for broker, groups in look.groups.items()
        for group in groups
        if group.protocol_type in PLAIN_PROTOCOLS
    }


def find_group(name: str) -> Steps[int]:
    """The coordinator of the group; ApiError if there is none. The first request creates __consumer_offsets."""
    for _ in range(LOOKUPS):
        (answer,) = yield [Ask(FindCoordinatorRequest(key=name, key_type=0, coordinator_keys=[name]))]
        if answer.response is None:
            raise ApiError(answer.error)
        found = answer.response.coordinators[0] if answer.response.coordinators else answer.response
        if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            break
        yield Pause(LOOKUP_PAUSE_MS)
    if found.error_code:
        raise ApiError(code_of(found.error_code), f"group {name} has no coordinator")
    return int(found.node_id)


def watch_groups(
    evidence: Evidence, coordinators: Mapping[str, int], *, watch_ms: int, patience_ms: int
) -> Steps[dict[str, GroupEvidence]]:
    """The groups that exist, watched for `watch_ms`, or up to `patience_ms` if one stands still."""
    if len(coordinators) > MAX_GROUPS:
        evidence.unanswered.append(f"Of {len(coordinators)} groups only {MAX_GROUPS} were watched.")
    coordinators = dict(sorted(coordinators.items())[:MAX_GROUPS])
    before = yield from _take(evidence, coordinators)
    if not before and not evidence.silent_groups:
        return {}
    yield Pause(watch_ms)
    after, watched_ms = (yield from _take(evidence, coordinators)), watch_ms
    while watched_ms < patience_ms and any(_is_doubtful(before[name], after[name]) for name in before if name in after):
        yield Pause(STEP_MS)
        watched_ms += STEP_MS
        after = yield from _take(evidence, coordinators)
    names = {name for each in after.values() for name in (*each.positions, *each.owners)}
    bounds = yield from _bounds(evidence, names)
    evidence.unanswered += (
        f"Group {name} is not known: its coordinator, broker {coordinators[name]}, answers {error.name}."
        for name, error in sorted(evidence.silent_groups.items())
    )
    return {
        name: _group(coordinators[name], before.get(name, seen), seen, bounds, watched_ms)
        for name, seen in after.items()
    }


def _is_doubtful(before: Watch, after: Watch) -> bool:
    stands = any(
        position == before.positions.get(name, -1) and before.ends.get(name, 0) > position
        for name, position in after.positions.items()
    )
    return (before.is_rebalancing and after.is_rebalancing) or (stands and after.state.state != "Empty")


def _take(evidence: Evidence, coordinators: Mapping[str, int]) -> Steps[dict[str, Watch]]:
    evidence.silent_groups.clear()
    states = yield from _describe(evidence, coordinators)
    answers = yield from ask_all(
        {name: Ask(_offsets_of(name), coordinators[name], NEWEST_VERSION_BY_NAME) for name in states}
    )
    found = {name: Watch(state) for name, state in states.items()}
    for name, answer in answers.items():
        found[name].positions = _committed(answer.response)
    wanted = {partition for seen in found.values() for partition in seen.positions}
    ends = yield from _offsets(evidence, wanted, LATEST)
    for seen in found.values():
        seen.ends = {partition: ends[partition] for partition in seen.positions if partition in ends}
    return found


def _describe(evidence: Evidence, coordinators: Mapping[str, int]) -> Steps[dict[str, GroupState]]:
    """Classic groups, and of those that are none the KIP-848 groups."""
    answers = yield from ask_all(
        {name: Ask(DescribeGroupsRequest(groups=[name]), broker) for name, broker in coordinators.items()}
    )
    states, left = {}, {}
    for name, answer in answers.items():
        if answer.response is None:
            evidence.silent_groups[name] = answer.error
            continue
        found = answer.response.groups[0]
        if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or found.group_state == "Dead":
            left[name] = Ask(ConsumerGroupDescribeRequest(group_ids=[name]), coordinators[name])
        elif not found.error_code:
            states[name] = classic_group(found)
        else:
            evidence.silent_groups[name] = code_of(found.error_code)
    for name, answer in (yield from ask_all(left)).items():
        error = answer.error if answer.response is None else code_of(answer.response.groups[0].error_code)
        if error is ErrorCode.NONE:
            states[name] = consumer_group(answer.response.groups[0])
        elif error not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
            evidence.silent_groups[name] = error
    return states


def _offsets_of(name: str) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(group_id=name, topics=None)
    return OffsetFetchRequest(group_id=name, topics=None, groups=[group], require_stable=True)


def _committed(response: Any) -> Positions:
    if response is None:
        return {}
    result = response.groups[0] if response.groups else response
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in (() if result.error_code else result.topics)
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _offsets(
    evidence: Evidence, partitions: Iterable[TopicPartition], timestamp: int, *, isolation: int = 0
) -> Steps[Positions]:
    """The offset of each partition whose leader answers."""
    known = [(each, evidence.partitions[each].leader) for each in partitions if each in evidence.partitions]
    led = by_leader(known)
    asks = {
        leader: Ask(list_offsets(names, timestamp, isolation=isolation), leader)
        for leader, names in led.items()
        if evidence.is_alive(leader)
    }
    answers = yield from ask_all(asks)
    found = listed_offsets(answers.values())
    return {name: offset for name, (offset, error) in found.items() if error is ErrorCode.NONE}


def _bounds(evidence: Evidence, partitions: set[TopicPartition]) -> Steps[dict[TopicPartition, tuple[int, int]]]:
    """(first offset, last stable offset) of each partition whose leader answers."""
    starts = yield from _offsets(evidence, partitions, EARLIEST)
    stable = yield from _offsets(evidence, partitions, LATEST, isolation=READ_COMMITTED)
    return {name: (starts[name], stable[name]) for name in starts if name in stable}


def _count(bounds: tuple[int, int] | None) -> int | None:
    return None if bounds is None else bounds[1] - bounds[0]


def _group(
    coordinator: int,
    before: Watch,
    after: Watch,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    watched_ms: int,
) -> GroupEvidence:
    owners, positions = after.owners, []
    for name, position in sorted(after.positions.items()):
        end = after.ends.get(name, before.ends.get(name, position))
        start, stable = bounds.get(name, (min(position, end), end))
        positions.append(
            GroupPosition(
                name,
                before.positions.get(name, position),
                position,
                start,
                before.ends.get(name, end),
                end,
                stable,
                owners.get(name),
            )
        )
    unread = {name: _count(bounds.get(name)) for name in sorted(set(owners).difference(after.positions))}
    was_rebalancing = before.is_rebalancing and after.is_rebalancing
    return GroupEvidence(after.state, coordinator, positions, unread, watched_ms, was_rebalancing)
