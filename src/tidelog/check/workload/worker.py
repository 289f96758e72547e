"""A thread of the workload: it runs one process after the other, with calls drawn from the seed at a bounded rate."""

import random
import time
from threading import Event, Thread

from tidelog.check.workload.process import DELIVERIES_MS, Process
from tidelog.check.workload.recorder import Recorder, SharedState
from tidelog.check.workload.target import WorkloadTarget
from tidelog.errors import ApiError

MAX_SENDS = 4
REASSIGN_SHARE = 1 / 64
ABORT_SHARE = 0.1
UNREAD_SHARE = 1 / 3
FROM_BEGINNING_SHARE = 1 / 16
MAX_REWIND = 20
"""The maximum distance from the known end at which a newly assigned partition is read."""


class Worker:
    """`subscribes`: whether its processes are members of the group, or assign partitions manually. With a
    `transactional_id` all sends are in transactions; each successor takes the id over. `failure` is the unexpected
    exception that ended its thread, if any."""

    def __init__(
        self,
        target: WorkloadTarget,
        recorder: Recorder,
        shared: SharedState,
        *,
        seed: int,
        subscribes: bool,
        transactional_id: str | None,
        per_second: float,
    ) -> None:
        self.failure: BaseException | None = None
        self._target = target
        self._recorder = recorder
        self._shared = shared
        self._random = random.Random(seed)  # noqa: S311 (chance that can be repeated)
        self._subscribes = subscribes
        self._transactional_id = transactional_id
        self._period_s = 1 / per_second
        self._stop = Event()
        self._crash = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def crash(self) -> None:
        """Crash its process before the next call."""
        self._crash.set()

    def request_stop(self) -> None:
        self._stop.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                process = self._start_process()
                if process is not None:
                    self._run_process(process)
                    process.leave()
        except BaseException as error:
            self.failure = error

    def _run_process(self, process: Process) -> None:
        """Make calls until the process is retired or the worker is stopped."""
        due = time.monotonic()
        while not process.is_retired and not self._stop.wait(max(0.0, due - time.monotonic())):
            due = max(due + self._period_s, time.monotonic() - 1)  # catch up for at most one second
            self._do_call(process)

    def _start_process(self) -> Process | None:
        """Start a process; None if no broker answers one that takes over the transactional id."""
        try:
            process = Process(
                self._target,
                self._recorder,
                self._shared,
                subscribes=self._subscribes,
                delivery_ms=self._random.choice(DELIVERIES_MS),
                transactional_id=self._transactional_id,
            )
        except ApiError:
            self._stop.wait(self._period_s)
            return None
        self._choose_partitions(process)
        return process

    def _do_call(self, process: Process) -> None:
        if self._crash.is_set():
            self._crash.clear()
            process.crash()
        elif self._random.random() < REASSIGN_SHARE:
            self._choose_partitions(process)
        elif self._random.random() < 0.5:
            self._write(process)
        else:
            records = process.poll()
            if records and self._subscribes and not process.is_retired:
                process.commit()

    def _write(self, process: Process) -> None:
        number = self._random.randint(1, MAX_SENDS)
        keys = [self._random.randrange(len(self._target.partitions)) for _ in range(number)]
        if self._transactional_id is None:
            process.send(keys)
        else:
            polls, aborts = self._random.random() < 0.5, self._random.random() < ABORT_SHARE
            process.transact(keys, polls=polls, aborts=aborts)

    def _choose_partitions(self, process: Process) -> None:
        """Choose what to read from now on."""
        if self._subscribes:
            topics = self._target.topics
            process.subscribe(self._random.sample(topics, self._random.randint(1, len(topics))))
            return
        everything = range(len(self._target.partitions))
        keys = set(self._random.sample(everything, self._random.randint(1, len(everything))))
        if self._random.random() < UNREAD_SHARE:
            keys.update(self._shared.unread)
        ends = self._shared.ends
        process.assign({key: self._start(ends[key]) for key in sorted(keys)})

    def _start(self, end: int) -> int:
        return 0 if self._random.random() < FROM_BEGINNING_SHARE else max(0, end - self._random.randint(0, MAX_REWIND))
