"""Full folders: nothing is appended there, existing records are served, and the room is checked every second.

A full disk is not a failed one: what did not fit was undone, and its sender retries.
"""

from collections.abc import Callable

from tidelog.alarms import Alarm
from tidelog.effects import Effect, Event
from tidelog.errors import DiskFailed
from tidelog.model import Time
from tidelog.node.replicas import HeldReplicas
from tidelog.ports import Disk

CHECK_EVERY_MS = 1_000
ROOM_BYTES = 1 << 20
PROBE = ".tidelog-room"
PROBE_BYTES = 64 * 1024


class DiskSpace:
    """`on_room(folder)` is called when a folder has room again."""

    def __init__(
        self, replicas: HeldReplicas, disk: Disk, effects: list[Effect], on_room: Callable[[str], None]
    ) -> None:
        self._replicas = replicas
        self._disk = disk
        self._effects = effects
        self._on_room = on_room
        self._due: int | None = None
        self.alarm = Alarm()
        replicas.on_room = self._room_changed

    def __repr__(self) -> str:
        return f"<DiskSpace in all but {sorted(self._replicas.full)}>"

    @property
    def next_deadline(self) -> int | None:
        """0, the past, from when a folder is full until the next `wake`, which knows what time it is."""
        return (self._due or 0) if self._replicas.full else None

    def _room_changed(self) -> None:
        if not self._replicas.full:
            self._due = None
        self.alarm.set(self.next_deadline)

    def wake(self, now: Time) -> None:
        if self._due is None:
            self._due = now.mono + CHECK_EVERY_MS
        elif self._due <= now.mono:
            self._due = now.mono + CHECK_EVERY_MS
            for folder in list(self._replicas.full):
                self._check_folder(folder)
        self.alarm.set(self.next_deadline)

    def _check_folder(self, folder: str) -> None:
        try:
            if not self._has_room(folder):
                return
        except DiskFailed as failure:
            self._replicas.disk_failed(failure)
            return
        self._replicas.has_room(folder)
        self._effects.append(Event("folder.room", {"folder": folder}))
        self._on_room(folder)

    def _has_room(self, folder: str) -> bool:
        """By the file system's word, and by deed: a quota shows only when something is written."""
        if self._disk.usage(folder)[1] < ROOM_BYTES:
            return False
        path = f"{folder}/{PROBE}"
        self._disk.replace(path, bytes(PROBE_BYTES), durable=False)
        self._disk.remove(path)
        return True
