"""The whole workload: workers until they are asked to stop, then the final readings."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.check.history.operation import Header
from tidelog.check.workload.ground import Ground
from tidelog.check.workload.knowledge import Knowledge
from tidelog.check.workload.recorder import Recorder
from tidelog.check.workload.scanning import scan_all
from tidelog.check.workload.worker import Worker

CRASH_EVERY_S = 30.0
FINAL_S = 200.0
READERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`rate` is in calls a second, of all workers together. With `transactions` half of the workers write
    only in them."""

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
    """`start`, then `tick` now and then, `finish` at last."""

    def __init__(self, ground: Ground, plan: Plan, file: Path) -> None:
        self.ground = ground
        self.plan = plan
        about = {"seed": plan.seed, "seconds": plan.seconds, "rate": plan.rate, "workers": plan.workers, **plan.about}
        self.recorder = Recorder(file, Header([(each.topic, each.partition) for each in ground.partitions], about))
        self._knowledge = Knowledge(len(ground.partitions))
        self._random = random.Random(plan.seed)  # noqa: S311 (chance that can be repeated)
        self._crash_every_s = min(CRASH_EVERY_S, plan.seconds / 4)
        self._crash_at = self._crash_every_s
        self._workers = [
            Worker(
                ground,
                self.recorder,
                self._knowledge,
                seed=self._random.getrandbits(32),
                subscribes=number % 2 == 1,
                transactional_id=f"{ground.group}-{number}" if plan.transactions and number % 4 >= 2 else None,
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
        """Crash a client where one is due; raise what ended a worker."""
        for worker in self._workers:
            if worker.failure is not None:
                raise worker.failure
        if self.recorder.seconds >= self._crash_at:
            self._crash_at += self._crash_every_s
            self._random.choice(self._workers).crash()

    def stop(self) -> None:
        """No more calls are begun; waits for those on their way."""
        for worker in self._workers:
            worker.ask_to_stop()
        for worker in self._workers:
            worker.join()
        self.tick()

    def finish(self, tell: Callable[[str], None] = lambda _line: None) -> None:
        """Stop, read everything, and complete the file."""
        tell("waiting for the calls on their way")
        self.stop()
        tell("reading everything once more")
        scan_all(self.ground, self.recorder, self._knowledge, readers=READERS, within_s=self.plan.final_s)
        self.recorder.close()
