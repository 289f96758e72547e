"""fsyncs of the log folders after replicas were created or deleted: off the loop, one at a time for each folder.

A power loss could otherwise take a created replica that is in sync, or bring a deleted one back. An fsync takes
milliseconds, or seconds where the disk is busy, or hangs with it. So a caller that must wait registers a function,
and waits only for the folders that concern its own partitions.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from tidelog.effects import Effect, Remove, SyncFolders
from tidelog.model import TopicPartition
from tidelog.node.replicas import FolderChanges, HeldReplicas

FIRST_TOKEN = 1 << 41

Then = Callable[[Collection[TopicPartition]], None]


@dataclass(slots=True)
class _Wait:
    """For `syncs` fsyncs; `failed`: partitions of it that were in a folder whose fsync failed."""

    then: Then
    syncs: int = 0
    failed: set[TopicPartition] = field(default_factory=set)


_Waits = list[tuple[_Wait, list[TopicPartition]]]
"""Who waits for one fsync, and for which partitions."""


class _Sync(NamedTuple):
    token: int
    changes: FolderChanges
    waits: _Waits


class FolderSyncs:
    """`HeldReplicas` notes what changed in which folder, and which deleted replicas are to be removed."""

    def __init__(self, replicas: HeldReplicas, effects: list[Effect]) -> None:
        self._replicas = replicas
        self._effects = effects
        self._tokens = count(FIRST_TOKEN)
        self._waits: dict[str, _Waits] = {}
        """By folder, for what changed since its fsync under way began."""
        self._under_way: dict[str, _Sync] = {}

    def __repr__(self) -> str:
        return f"<FolderSyncs: {sorted(self._waits)} waiting, {sorted(self._under_way)} under way>"

    def is_durable(self, name: TopicPartition) -> bool:
        """Whether all that was created and deleted under this name is."""
        under_way = (sync.changes for sync in self._under_way.values())
        return not any(name in changes.names for changes in (*self._replicas.unsynced.values(), *under_way))

    def when_durable(self, names: Collection[TopicPartition], then: Then) -> None:
        """Call it once all that was created and deleted under these names before is durable, at once if it is. It gets
        those of the names for which a folder failed."""
        wait = _Wait(then)
        for folder, changes in self._replicas.unsynced.items():
            _register(wait, names, changes, self._waits.setdefault(folder, []))
        for sync in self._under_way.values():
            _register(wait, names, sync.changes, sync.waits)
        if not wait.syncs:
            then(())
        for folder in sorted(self._replicas.unsynced):
            self._begin(folder)

    def _begin(self, folder: str) -> None:
        if folder in self._under_way or folder not in self._replicas.unsynced:
            return
        changes, waits = self._replicas.unsynced.pop(folder), self._waits.pop(folder, [])
        sync = self._under_way[folder] = _Sync(next(self._tokens), changes, waits)
        self._effects.append(SyncFolders(sync.token, [folder], sorted(changes.reused)))

    def synced(self, token: int) -> None:
        folder = self._folder(token)
        if folder is not None:
            changes = self._under_way[folder].changes
            self._effects.extend(Remove(path) for path in changes.doomed)
            self._replicas.truncated = self._replicas.truncated or changes.forgotten
            self._replicas.unsure.discard(folder)
            self._end(folder, failed=False)

    def failed(self, token: int) -> None:
        """The folder is offline by now."""
        folder = self._folder(token)
        if folder is not None:
            self._end(folder, failed=True)

    def _folder(self, token: int) -> str | None:
        """The folder of the fsync under way that has this token."""
        return next((folder for folder, sync in self._under_way.items() if sync.token == token), None)

    def _end(self, folder: str, *, failed: bool) -> None:
        for wait, names in self._under_way.pop(folder).waits:
            wait.syncs -= 1
            if failed:
                wait.failed.update(names)
            if not wait.syncs:
                wait.then(wait.failed)
        self._begin(folder)


def _register(wait: _Wait, names: Collection[TopicPartition], changes: FolderChanges, waits: _Waits) -> None:
    """Have it wait if these changes concern one of the names."""
    concerned = [name for name in names if name in changes.names]
    if concerned:
        wait.syncs += 1
        waits.append((wait, concerned))
