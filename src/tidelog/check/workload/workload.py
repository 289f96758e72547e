"""The whole workload: workers until they are stopped, then the final scan.

In the final scan fresh consumers read every partition from the beginning to the end, and the group's committed offsets
are fetched.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from tidelog.check.history.operation import COMMITTED, DEBUG, INFO, OK, SCAN_BEGINS, SCAN_ENDS, Header
from tidelog.check.workload.process import Process
from tidelog.check.workload.recorder import Recorder, SharedState
from tidelog.check.workload.target import WorkloadTarget
from tidelog.check.workload.worker import Worker
from tidelog.client.results import CommittedOffset
from tidelog.errors import ApiError
from tidelog.model import TopicPartition

CRASH_EVERY_S = 30.0
FINAL_S = 200.0
READERS = 2

ROUND_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`rate`: calls per second, of all workers together. With `transactions` half of the workers write only in
    transactions."""

    seconds: float = 60.0
    topics: int = 2
    partitions: int = 3
    workers: int = 4
    rate: float = 200.0
    seed: int = 0
    transactions: bool = True
    final_s: float = FINAL_S
    about: dict[str, Any] = field(default_factory=dict)


class Workload:
    """Call `start`, then `tick` regularly, and `finish` at the end."""

    def __init__(self, target: WorkloadTarget, plan: Plan, file: Path) -> None:
        self.target = target
        self.plan = plan
        about = {"seed": plan.seed, "seconds": plan.seconds, "rate": plan.rate, "workers": plan.workers, **plan.about}
        self.recorder = Recorder(file, Header([(each.topic, each.partition) for each in target.partitions], about))
        self._shared = SharedState(len(target.partitions))
        self._random = random.Random(plan.seed)  # noqa: S311 (chance that can be repeated)
        self._crash_every_s = min(CRASH_EVERY_S, plan.seconds / 4)
        self._crash_at = self._crash_every_s
        self._workers = [
            Worker(
                target,
                self.recorder,
                self._shared,
                seed=self._random.getrandbits(32),
                subscribes=number % 2 == 1,
                transactional_id=f"{target.group}-{number}" if plan.transactions and number % 4 >= 2 else None,
                per_second=plan.rate / plan.workers,
            )
            for number in range(plan.workers)
        ]

    def __repr__(self) -> str:
        return f"Workload({self.plan.workers} workers, {self.recorder})"

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def tick(self) -> None:
        """Crash a client if one is due; raise the failure of a worker."""
        for worker in self._workers:
            if worker.failure is not None:
                raise worker.failure
        if self.recorder.seconds >= self._crash_at:
            self._crash_at += self._crash_every_s
            self._random.choice(self._workers).crash()

    def stop(self) -> None:
        """Start no more calls, and wait for those in flight."""
        for worker in self._workers:
            worker.request_stop()
        for worker in self._workers:
            worker.join()
        self.tick()

    def finish(self, report: Callable[[str], None] = lambda _line: None) -> None:
        """Stop, read everything, and complete the file."""
        report("waiting for the calls in flight")
        self.stop()
        report("reading everything again")
        scan_all(self.target, self.recorder, self._shared, readers=READERS, within_s=self.plan.final_s)
        self.recorder.close()


def scan_all(target: WorkloadTarget, recorder: Recorder, shared: SharedState, *, readers: int, within_s: float) -> None:
    """Each reader retries with a fresh process until it has read everything or the time is up."""
    deadline = time.monotonic() + within_s
    threads = [Thread(target=_scan_until_whole, args=(target, recorder, shared, deadline)) for _ in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _fetch_committed(target, recorder, shared)


def _scan_until_whole(target: WorkloadTarget, recorder: Recorder, shared: SharedState, deadline: float) -> None:
    while time.monotonic() < deadline:
        process = Process(target, recorder, shared, subscribes=False)
        try:
            if _read_all(process, target, shared, min(deadline, time.monotonic() + ROUND_S), deadline):
                return
        except ApiError:
            continue  # the end offsets could not be fetched
        finally:
            process.abandon()


def _read_all(process: Process, target: WorkloadTarget, shared: SharedState, until: float, deadline: float) -> bool:
    """Read every partition to its end, and to the end of what is known to exist. At the deadline the end of the
    partition is enough: records that are missing then are lost."""
    ends = process.consumer.end_offsets(target.partitions)
    wanted = {partition: max(ends[partition], shared.ends[key]) for key, partition in enumerate(target.partitions)}
    process.begin(DEBUG, SCAN_BEGINS)
    process.end(OK, DEBUG, SCAN_BEGINS)
    process.assign(dict.fromkeys(range(len(target.partitions)), 0))
    while not _has_reached(process, wanted):
        if time.monotonic() >= until:
            if until < deadline or not _has_reached(process, ends):
                return False
            break
        process.poll()
        if process.is_retired:
            return False
    process.begin(DEBUG, SCAN_ENDS)
    process.end(OK, DEBUG, SCAN_ENDS)
    return True


def _has_reached(process: Process, wanted: dict[TopicPartition, int]) -> bool:
    return all(process.consumer.position(partition) >= end for partition, end in wanted.items())


def _fetch_committed(target: WorkloadTarget, recorder: Recorder, shared: SharedState) -> None:
    process = Process(target, recorder, shared, subscribes=True)
    process.begin(COMMITTED, None)
    try:
        found: dict[TopicPartition, CommittedOffset] = process.consumer.committed(target.partitions)
    except ApiError:
        process.end(INFO, COMMITTED, None)
    else:
        process.end(
            OK, COMMITTED, {target.key_of(*partition): committed.offset for partition, committed in found.items()}
        )
    finally:
        process.abandon()
