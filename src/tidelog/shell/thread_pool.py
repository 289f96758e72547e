"""Slow work off the event loop: each kind of work has a few threads, and jobs with equal keys keep their order.

Threads start when first needed and sleep in the kernel between jobs. `DiskWorker` runs the disk's part of the work:
fsyncs, replaced files, long removals.
"""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Protocol
from zlib import crc32

from tidelog.effects import Examine, Remove, Replace, Sync, SyncFolders
from tidelog.errors import DiskFailed, DiskFull
from tidelog.log.examination import Verdict, examine
from tidelog.node.log_dirs import sync_folders
from tidelog.ports import Disk

Job = Callable[[], None]
KINDS = {"sync": 4, "remove": 1, "read": 2, "name": 1, "compute": 1}
"""Threads for each kind of work: concurrent fsyncs share one commit of the file system's journal. Computing takes turns
with the event loop, so that more threads would only slow that down."""

NO_TOKEN = 0
"""The token of disk work that no request waits for."""


class ThreadPool:
    """The threads of one process; `stop` waits until all submitted jobs are done."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], SimpleQueue[Job | None]] = {}
        self._threads: list[Thread] = []

    def __repr__(self) -> str:
        return f"ThreadPool({len(self._threads)} threads)"

    def submit(self, kind: str, key: str, job: Job) -> None:
        """Run the job after all earlier ones of this kind and key. The job handles its own errors."""
        lane = (kind, crc32(key.encode()) % KINDS[kind])
        queue = self._queues.get(lane)
        if queue is None:
            queue = self._queues[lane] = SimpleQueue()
            thread = Thread(target=_work, args=(queue,), name=f"pool-{lane[0]}-{lane[1]}", daemon=True)
            self._threads.append(thread)
            thread.start()
        queue.put(job)

    def stop(self) -> None:
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join()


def _work(queue: "SimpleQueue[Job | None]") -> None:
    while (job := queue.get()) is not None:
        job()


class DiskObserver(Protocol):
    """Receives the results, on the threads of the pool."""

    def synced(self, token: int) -> None: ...

    def disk_failed(self, token: int, folder: str, reason: str) -> None: ...

    def disk_full(self, folder: str, reason: str) -> None: ...

    def examined(self, token: int, verdict: Verdict) -> None: ...

    def removal_failed(self, reason: str) -> None: ...

    def crashed(self, error: BaseException) -> None:
        """An unexpected exception: a bug in Tidelog."""


class DiskWorker:
    """Runs disk effects. Work on one partition's folder keeps its order; different folders are independent."""

    def __init__(self, disk: Disk, thread_pool: ThreadPool, observer: DiskObserver) -> None:
        self._disk = disk
        self._thread_pool = thread_pool
        self._observer = observer

    def sync(self, effect: Sync) -> None:
        def work() -> None:
            for file in effect.files:
                file.sync()

        self._submit(effect.token, effect.files[0].path if effect.files else "", work)

    def sync_folders(self, effect: SyncFolders) -> None:
        work = partial(sync_folders, self._disk, effect)
        self._submit(effect.token, "".join(f"{path}/" for path in effect.paths[:1]), work)

    def replace(self, effect: Replace) -> None:
        def work() -> None:
            try:
                self._disk.replace(effect.path, effect.content)
            except FileNotFoundError:
                """The folder was removed or renamed in the meantime, and the file with it."""

        self._submit(effect.token, effect.path, work)

    def examine(self, effect: Examine) -> None:
        """Verify a stretch of a log. Its bytes are in the page cache afterwards, for the request that needs them."""
        stretch = effect.stretch

        def work() -> None:
            try:
                self._observer.examined(effect.token, examine(stretch))
            except DiskFailed as failed:
                self._observer.disk_failed(NO_TOKEN, failed.folder, failed.reason)
            except Exception as error:
                self._observer.crashed(error)

        self._thread_pool.submit("read", stretch.file.path, work)

    def remove(self, effect: Remove) -> None:
        def work() -> None:
            try:
                self._disk.remove(effect.path)
            except DiskFailed as failed:
                self._observer.removal_failed(str(failed))

        self._thread_pool.submit("remove", "", work)

    def _submit(self, token: int, path: str, work: Callable[[], None]) -> None:
        self._thread_pool.submit("sync", path.rpartition("/")[0], partial(self._carry_out, token, work))

    def _carry_out(self, token: int, work: Callable[[], None]) -> None:
        try:
            work()
        except DiskFull as full:
            self._observer.disk_full(full.folder, full.reason)
        except DiskFailed as failed:
            self._observer.disk_failed(token, failed.folder, failed.reason)
        except Exception as error:
            self._observer.crashed(error)
        else:
            self._observer.synced(token)
