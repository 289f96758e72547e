"""The disk's slow work, carried out on threads: fsyncs, replaced files, long removals."""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from tidelog.effects import Examine, Remove, Replace, Sync
from tidelog.errors import DiskFailed, DiskFull
from tidelog.log.examination import Verdict, examine
from tidelog.ports import Disk
from tidelog.shell.thread_pool import ThreadPool

UNAWAITED = 0
"""The token of disk work that nobody asked for."""


class Informed(Protocol):
    """Who is told how it went; called on the threads."""

    def synced(self, token: int) -> None: ...

    def disk_failed(self, token: int, folder: str, reason: str) -> None: ...

    def disk_full(self, folder: str, reason: str) -> None: ...

    def examined(self, token: int, verdict: Verdict) -> None: ...

    def not_removed(self, reason: str) -> None: ...

    def failed(self, error: BaseException) -> None:
        """A fault of this program."""


class Upkeep:
    """Work on one partition's folder keeps its order; different folders are worked on side by side."""

    def __init__(self, disk: Disk, thread_pool: ThreadPool, informed: Informed) -> None:
        self._disk = disk
        self._thread_pool = thread_pool
        self._informed = informed

    def sync(self, effect: Sync) -> None:
        def work() -> None:
            for file in effect.files:
                file.sync()

        self._submit(effect.token, effect.files[0].path if effect.files else "", work)

    def replace(self, effect: Replace) -> None:
        def work() -> None:
            try:
                self._disk.replace(effect.path, effect.content)
            except FileNotFoundError:
                """The folder was removed or renamed meanwhile, and what the file would say with it."""

        self._submit(effect.token, effect.path, work)

    def examine(self, effect: Examine) -> None:
        """The bytes that are read are in the page cache then, for whoever asked."""
        stretch = effect.stretch

        def work() -> None:
            try:
                self._informed.examined(effect.token, examine(stretch))
            except DiskFailed as failed:
                self._informed.disk_failed(UNAWAITED, failed.folder, failed.reason)
            except Exception as error:
                self._informed.failed(error)

        self._thread_pool.submit("read", stretch.file.path, work)

    def remove(self, effect: Remove) -> None:
        def work() -> None:
            try:
                self._disk.remove(effect.path)
            except DiskFailed as failed:
                self._informed.not_removed(str(failed))

        self._thread_pool.submit("remove", "", work)

    def _submit(self, token: int, path: str, work: Callable[[], None]) -> None:
        self._thread_pool.submit("sync", path.rpartition("/")[0], partial(self._carry_out, token, work))

    def _carry_out(self, token: int, work: Callable[[], None]) -> None:
        try:
            work()
        except DiskFull as full:
            self._informed.disk_full(full.folder, full.reason)
        except DiskFailed as failed:
            self._informed.disk_failed(token, failed.folder, failed.reason)
        except Exception as error:
            self._informed.failed(error)
        else:
            self._informed.synced(token)
