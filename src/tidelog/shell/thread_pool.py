"""Slow work off the event loop: each kind of work has a few threads, and equal keys keep their order.

Threads start when first needed and sleep in the kernel between jobs.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from zlib import crc32

Job = Callable[[], None]
KINDS = {"sync": 4, "remove": 1, "read": 2, "name": 1}
"""How many threads each kind of work has: fsyncs side by side share one commit of the file system's journal."""


class ThreadPool:
    """The threads of one process; `stop` waits until all that was submitted is done."""

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
