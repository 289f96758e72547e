"""One consumer group as its records describe it, and the groups of one shard.

Only `ConsumerGroup.apply` changes a group; it applies one record. A `Draft` is the group as it will be once the records
of an operation are replayed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group.consumer import records
from tidelog.coordinator.group.consumer.member import LEAVE_EPOCH, ConsumerMember, CurrentAssignment
from tidelog.coordinator.group.consumer.records import Regex
from tidelog.coordinator.group.consumer.topics import TopicIdPartition

NO_PARTITIONS: frozenset[TopicIdPartition] = frozenset()
FIRST_EPOCH = 1
"""The epoch of a group without members; its first member joins in the next one."""


class ConsumerGroupState(Enum):
    """Values are the names in Kafka's responses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class TargetMetadata(NamedTuple):
    """The group epoch of the target assignment, and the time (wall milliseconds) it was computed."""

    epoch: int = FIRST_EPOCH
    timestamp: int = 0


class ConsumerGroup:
    """`owners` maps each partition that is assigned, or has yet to be revoked, to its member."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target = TargetMetadata()
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, frozenset[TopicIdPartition]] = {}
        self.regexes: dict[str, Regex] = {}
        self.static_members: dict[str, str] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self.has_old_metadata = False
        self.is_deleted = False
        self._topics: frozenset[str] | None = None

    def __repr__(self) -> str:
        return f"<ConsumerGroup {self.group_id!r} {self.state.value} epoch {self.epoch}, {len(self.members)} members>"

    def copy(self) -> "ConsumerGroup":
        copy = ConsumerGroup(self.group_id)
        copy.__dict__.update(self.__dict__)
        for name in ("members", "targets", "regexes", "static_members", "owners"):
            setattr(copy, name, dict(getattr(self, name)))
        return copy

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target.epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.current.is_reconciled(self.target.epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def classic_members(self) -> Iterator[ConsumerMember]:
        return (member for member in self.members.values() if member.is_classic)

    def subscribed_topics(self) -> frozenset[str]:
        """Names of existing and of missing topics."""
        if self._topics is None:
            self._topics = frozenset(name for member in self.members.values() for name in self.topics_of(member))
        return self._topics

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        subscription = member.subscription
        regex = self.regexes.get(subscription.pattern) if subscription.pattern else None
        return subscription.topics if regex is None else subscription.topics | regex.topics

    def subscribers(self, pattern: str) -> int:
        return sum(member.subscription.pattern == pattern for member in self.members.values())

    def preferred_assignor(self) -> str | None:
        """The assignor that most members request; None if none does."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            if member.subscription.assignor is not None:
                votes[member.subscription.assignor] = votes.get(member.subscription.assignor, 0) + 1
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether another member still owns a partition of the member's target."""
        target = self.targets.get(member.member_id, NO_PARTITIONS)
        return any(partition in self.owners for partition in target if partition not in member.current.assigned)

    # Replay.

    def apply(self, change: Change) -> None:
        """Records of other kinds are ignored."""
        rule = self._RULES.get(type(change.key))
        if rule is not None:
            rule(self, change.key, change.value)

    def _apply_metadata(self, _: Any, value: Any) -> None:
        if value is None:
            self.is_deleted = True
        else:
            self.epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def _apply_partition_metadata(self, _: Any, value: Any) -> None:
        self.has_old_metadata = value is not None

    def _apply_member(self, key: Any, value: Any) -> None:
        self._topics = None
        if value is None:
            member = self.members.pop(key.member_id, None)
            self._forget(member)
            return
        member = self.members.get(key.member_id, ConsumerMember(key.member_id))
        self._unname(member)
        member = member._replace(subscription=records.subscription_from(value))
        self.members[key.member_id] = member
        if member.subscription.instance_id is not None:
            self.static_members[member.subscription.instance_id] = key.member_id

    def _forget(self, member: ConsumerMember | None) -> None:
        if member is None:
            return
        self._disown(member)
        self._unname(member)

    def _unname(self, member: ConsumerMember) -> None:
        """Its instance ID may belong to another member by now, or the member joined again with another one."""
        instance_id = member.subscription.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _apply_target_metadata(self, _: Any, value: Any) -> None:
        self.target = (
            TargetMetadata() if value is None else TargetMetadata(value.assignment_epoch, value.assignment_timestamp)
        )

    def _apply_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = records.target_from(value)

    def _apply_current(self, key: Any, value: Any) -> None:
        member = self.members.get(key.member_id)
        if member is not None:
            self._disown(member)
        if value is None:
            current = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)
        else:
            current = records.current_from(value)
            member = member or ConsumerMember(key.member_id)
        if member is None:
            return
        self.members[key.member_id] = member._replace(current=current)
        for partition in (*current.assigned, *current.revoking):
            self.owners[partition] = key.member_id

    def _disown(self, member: ConsumerMember) -> None:
        for partition in (*member.current.assigned, *member.current.revoking):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _apply_regex(self, key: Any, value: Any) -> None:
        self._topics = None
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = Regex(frozenset(value.topics), value.version, value.timestamp)

    _RULES: ClassVar[Mapping[type, Callable[["ConsumerGroup", Any, Any], None]]] = {
        records.METADATA: _apply_metadata,
        records.PARTITION_METADATA: _apply_partition_metadata,
        records.MEMBER: _apply_member,
        records.TARGET_METADATA: _apply_target_metadata,
        records.TARGET: _apply_target,
        records.CURRENT: _apply_current,
        records.REGEX: _apply_regex,
    }

    def check_invariants(self) -> None:
        for member in self.members.values():
            for partition in (*member.current.assigned, *member.current.revoking):
                assert self.owners[partition] == member.member_id, (self, partition)
        held = sum(len(m.current.assigned) + len(m.current.revoking) for m in self.members.values())
        assert held == len(self.owners), self
        statics = {m.subscription.instance_id: m.member_id for m in self.members.values() if m.subscription.instance_id}
        assert statics == self.static_members, self
        assert self.targets.keys() <= self.members.keys(), self
        assigned = [partition for partitions in self.targets.values() for partition in partitions]
        assert len(assigned) == len(set(assigned)), self
        assert self.target.epoch <= self.epoch, self


class Draft:
    """The group is copied for the first record, so an idle heartbeat costs nothing.

    `may_describe` is asked for each topic that a pattern matches: whether the sender of the request may know of it; as
    in Kafka, the member that has the pattern resolved decides for the group. None is everything."""

    __slots__ = ("_is_copy", "changes", "group", "may_describe")

    def __init__(self, group: ConsumerGroup, changes: Iterable[Change] = ()) -> None:
        self.group = group
        self.changes: list[Change] = []
        self.may_describe: Callable[[str], bool] | None = None
        self._is_copy = False
        self.add(*changes)

    def __repr__(self) -> str:
        return f"<Draft of {self.group!r}, {len(self.changes)} changes>"

    def add(self, *changes: Change) -> None:
        for change in changes:
            if not self._is_copy:
                self.group, self._is_copy = self.group.copy(), True
            self.group.apply(change)
            self.changes.append(change)


Groups = dict[str, ConsumerGroup]


class ConsumerGroups:
    """The consumer groups of one shard in two views: the newest for writers, the committed for readers.

    Soft state, which a failover loses: `fresh` has the epoch that a group must have to be up to date with the cluster's
    topics. A group has a lower one if its records were not written. `resolved` has the time (monotonic milliseconds)
    its patterns were resolved, with such an epoch; the patterns of the groups in `outdated` must be resolved again. A
    group that is not known to be up to date is checked at its next heartbeat; no other group is.
    """

    def __init__(self) -> None:
        self.newest: Groups = {}
        self.committed: Groups = {}
        self._uncommitted: deque[tuple[int, Change]] = deque()
        self.fresh: dict[str, int] = {}
        self.resolved: dict[str, tuple[int, int]] = {}
        self.outdated: set[str] = set()

    def __repr__(self) -> str:
        return f"<ConsumerGroups {len(self.newest)}, {len(self._uncommitted)} changes to commit>"

    def replay(self, offset: int, change: Change) -> None:
        group = _replay(self.newest, change)
        if group is not None and group.is_deleted:
            self.fresh.pop(group.group_id, None)
            self.resolved.pop(group.group_id, None)
            self.outdated.discard(group.group_id)
        self._uncommitted.append((offset, change))

    def is_fresh(self, group: ConsumerGroup) -> bool:
        epoch = self.fresh.get(group.group_id)
        return epoch is not None and epoch <= group.epoch

    def resolved_at(self, group: ConsumerGroup) -> int | None:
        at, epoch = self.resolved.get(group.group_id, (None, 0))
        return at if epoch <= group.epoch else None

    def commit(self, high_watermark: int) -> None:
        while self._uncommitted and self._uncommitted[0][0] < high_watermark:
            _replay(self.committed, self._uncommitted.popleft()[1])

    def check_invariants(self) -> None:
        for group in self.newest.values():
            group.check_invariants()


def _replay(groups: Groups, change: Change) -> ConsumerGroup | None:
    """The tombstone of an unknown group is ignored."""
    group_id = change.key.group_id
    group = groups.get(group_id)
    if group is None:
        if change.value is None:
            return None
        group = groups[group_id] = ConsumerGroup(group_id)
    group.apply(change)
    if group.is_deleted:
        del groups[group_id]
    return group
