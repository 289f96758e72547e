"""The consumer groups of one shard in two views: the newest, for writers, and the committed, for readers.

Soft state, which a failover may forget: which groups are up to date with the cluster's topics, and when each resolved
its patterns. A group that is not known to be fresh is looked at with its next heartbeat, and no other is.
"""

from collections import deque

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group.consumer.group import ConsumerGroup

Groups = dict[str, ConsumerGroup]


class ConsumerGroups:
    """`fresh` has the epoch that a group must have to be up to date: it has not where its records did not get into the
    log. `resolved` has when (monotonic milliseconds) its patterns were, with such an epoch; for a group in `outdated`
    they are to be again."""

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
    """The tombstone of what is not there says nothing."""
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
