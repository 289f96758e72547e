"""Members' subscriptions, and the cluster's topics that match them. Any change raises the group's epoch."""

from collections.abc import Callable, Iterable

from tidelog.coordinator.group.consumer import topics
from tidelog.coordinator.group.consumer.group import ConsumerGroup, Draft
from tidelog.coordinator.group.consumer.member import ConsumerMember, Subscription
from tidelog.coordinator.group.consumer.records import (
    Regex,
    group_change,
    member_change,
    partition_metadata_tombstone,
    regex_change,
    regex_tombstone,
)
from tidelog.coordinator.group.machine import GroupMachine
from tidelog.coordinator.patterns import PatternProblem, whole_matcher
from tidelog.errors import ApiError, ErrorCode

MIN_RESOLVE_INTERVAL_MS = 10_000
"""A group's patterns are not resolved again within this time, however many topics are created or deleted."""


def update(machine: GroupMachine, draft: Draft, member: ConsumerMember, subscription: Subscription) -> bool:
    """Write the member's subscription; returns whether its topics or its pattern changed. Raises ApiError
    INVALID_REGULAR_EXPRESSION."""
    before = member.subscription
    group_id = draft.group.group_id
    if subscription != before:
        if subscription.pattern and subscription.pattern != before.pattern:
            _compiled(subscription.pattern)
        draft.add(member_change(group_id, member.member_id, subscription))
    pattern_changed = subscription.pattern != before.pattern
    changed = subscription.topics != before.topics or pattern_changed
    is_fresh = machine.consumers.is_fresh(draft.group)
    outdated = _patterns_are_outdated(machine, draft.group)
    if pattern_changed or outdated:
        _resolve(machine, draft, everything=outdated)
    if changed or outdated or not is_fresh:
        _bump_epoch(machine, draft, by_member=changed)
    if outdated:
        machine.consumers.outdated.discard(group_id)
        machine.consumers.resolved[group_id] = machine.shard.now.mono, draft.group.epoch
    return changed


def _bump_epoch(machine: GroupMachine, draft: Draft, *, by_member: bool) -> None:
    group = draft.group
    metadata_hash = topics.fingerprint(machine.cluster, group.subscribed_topics())
    if by_member or metadata_hash != group.metadata_hash:
        draft.add(group_change(group.group_id, group.epoch + 1, metadata_hash))
    if group.has_old_metadata:
        draft.add(partition_metadata_tombstone(group.group_id))
    machine.consumers.fresh[group.group_id] = draft.group.epoch


def bump_epoch_after_leave(machine: GroupMachine, draft: Draft) -> None:
    """Members left: raise the epoch, and delete patterns that no member uses."""
    for pattern in list(draft.group.regexes):
        if not draft.group.subscribers(pattern):
            draft.add(regex_tombstone(draft.group.group_id, pattern))
    _bump_epoch(machine, draft, by_member=True)


# Patterns.


def _patterns_are_outdated(machine: GroupMachine, group: ConsumerGroup) -> bool:
    """Whether topics were created or deleted, or the patterns are old; limited to the minimum interval."""
    if not group.regexes:
        return False
    resolved_at = machine.consumers.resolved_at(group)
    if resolved_at is None:
        return True
    age_ms = machine.shard.now.mono - resolved_at
    if age_ms > machine.config.group_consumer_regex_refresh_interval_ms:
        return True
    return group.group_id in machine.consumers.outdated and age_ms > MIN_RESOLVE_INTERVAL_MS


def _resolve(machine: GroupMachine, draft: Draft, *, everything: bool) -> None:
    """Match patterns against the cluster's topics: new ones, or all of them. Delete patterns that no member uses."""
    group = draft.group
    patterns = {member.subscription.pattern: None for member in group.members.values() if member.subscription.pattern}
    for pattern in [pattern for pattern in group.regexes if pattern not in patterns]:
        draft.add(regex_tombstone(group.group_id, pattern))
    for pattern in patterns:
        if everything or pattern not in group.regexes:
            draft.add(regex_change(group.group_id, pattern, _resolved(machine, draft, pattern)))


def _compiled(pattern: str) -> Callable[[str], bool]:
    """Raises ApiError INVALID_REGULAR_EXPRESSION."""
    try:
        return whole_matcher(pattern)
    except PatternProblem as problem:
        text = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {problem}."
        raise ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from problem


def _resolved(machine: GroupMachine, draft: Draft, pattern: str) -> Regex:
    matches, may_describe = _compiled(pattern), draft.may_describe
    found = [name for name in machine.cluster.topics if matches(name)]
    return Regex(frozenset(n for n in found if may_describe is None or may_describe(n)), 0, machine.wall)


def topics_changed(machine: GroupMachine, touched: Iterable[str]) -> None:
    """Topics were created, changed or deleted: groups that subscribe to one of them check their subscriptions at their
    next heartbeat."""
    touched = set(touched)
    consumers = machine.consumers
    for group in consumers.newest.values():
        if any(_is_outdated(machine, pattern, regex, touched) for pattern, regex in group.regexes.items()):
            consumers.outdated.add(group.group_id)
        if not touched.isdisjoint(group.subscribed_topics()):
            consumers.fresh.pop(group.group_id, None)


def _is_outdated(machine: GroupMachine, pattern: str, regex: Regex, touched: Iterable[str]) -> bool:
    matches, existing = _compiled(pattern), machine.cluster.topics
    return any((name in existing and matches(name)) != (name in regex.topics) for name in touched)
