"""A group as it will be when what an operation writes is replayed."""

from collections.abc import Iterable

from tidelog.coordinator.contract import Change
from tidelog.coordinator.group.consumer.group import ConsumerGroup


class Draft:
    """Records in the making. The group is copied at the first of them, so that an idle heartbeat costs nothing."""

    __slots__ = ("_is_copy", "changes", "group")

    def __init__(self, group: ConsumerGroup, changes: Iterable[Change] = ()) -> None:
        self.group = group
        self.changes: list[Change] = []
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
