"""fsyncs of the log folders after replicas were created or deleted: off the loop, one at a time.

A power loss could otherwise take a created replica that is in sync, or bring a deleted one back. An fsync takes
milliseconds, or seconds where the disk is busy; whoever must wait for it registers a function meanwhile.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

from tidelog.effects import Effect, Remove, SyncFolders
from tidelog.errors import ErrorCode
from tidelog.node.replicas import HeldReplicas

FIRST_TOKEN = 1 << 41

Then = Callable[[ErrorCode], None]


class _Sync(NamedTuple):
    """`doomed`: what is to be removed once it is done. `forgotten`: then the checkpoints are written without it.
    `reused`: replicas that must not inherit the offsets that checkpoints have at their paths."""

    token: int
    folders: list[str]
    waiting: list[Then]
    doomed: list[str]
    forgotten: bool
    reused: list[str]


class FolderSyncs:
    """`HeldReplicas` notes which folders changed, and which deleted replicas are to be removed."""

    def __init__(self, replicas: HeldReplicas, effects: list[Effect]) -> None:
        self._replicas = replicas
        self._effects = effects
        self._tokens = count(FIRST_TOKEN)
        self._waiting: list[Then] = []
        """For what changed since the sync under way began."""
        self._under_way: _Sync | None = None

    def __repr__(self) -> str:
        return f"<FolderSyncs: {len(self._waiting)} waiting, {self._under_way} under way>"

    def when_durable(self, then: Then) -> None:
        """Call it with NONE once all that was created and deleted before is durable, at once if it is, or with
        KAFKA_STORAGE_ERROR if a folder of it failed."""
        if self._under_way is None and not self._replicas.unsynced:
            then(ErrorCode.NONE)
            return
        self._waiting.append(then)
        self._begin()

    def _begin(self) -> None:
        if not self._waiting or self._under_way is not None:
            return
        replicas = self._replicas
        changes = replicas.doomed[:], replicas.forgotten, sorted(replicas.reused)
        self._under_way = _Sync(next(self._tokens), sorted(replicas.unsynced), self._waiting, *changes)
        self._waiting, replicas.forgotten = [], False
        replicas.unsynced.clear()
        replicas.doomed.clear()
        replicas.reused.clear()
        begun = self._under_way
        self._effects.append(SyncFolders(begun.token, begun.folders, begun.reused))

    def synced(self, token: int) -> None:
        done = self._end(token)
        if done is not None:
            self._effects.extend(Remove(path) for path in done.doomed)
            self._replicas.truncated = self._replicas.truncated or done.forgotten
            for then in done.waiting:
                then(ErrorCode.NONE)
            self._begin()

    def failed(self, token: int) -> None:
        """A folder of it is offline by now. The others may not have been synced, so they are again, and then all learn
        of the failure."""
        done = self._end(token)
        if done is not None:
            self._replicas.unsynced.update(set(done.folders).intersection(self._replicas.live_folders))
            self._replicas.doomed[:0] = done.doomed
            self._replicas.reused.update(self._replicas.among_live(done.reused))
            self._replicas.forgotten = self._replicas.forgotten or done.forgotten
            self._waiting[:0] = [partial(_refuse, then) for then in done.waiting]
            self._begin()

    def _end(self, token: int) -> _Sync | None:
        """The sync with this token, if it is the one under way."""
        if self._under_way is None or self._under_way.token != token:
            return None
        done, self._under_way = self._under_way, None
        return done


def _refuse(then: Then, _code: ErrorCode) -> None:
    then(ErrorCode.KAFKA_STORAGE_ERROR)
