"""A chaos run: start the cluster and the workload, do faults to it, heal it, read everything, judge."""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from tidelog.check import replicas
from tidelog.check.chaos import faults, schedule
from tidelog.check.chaos.arena import LATE_S, Arena
from tidelog.check.chaos.report import Happened, Late, Report, longest_silence, timeline
from tidelog.check.chaos.schedule import Planned, Round
from tidelog.check.history.text import parse
from tidelog.check.history.verdict import verify
from tidelog.check.workload import ground
from tidelog.check.workload.workload import Plan, Workload
from tidelog.errors import ApiError
from tidelog.shell.supervisor import NotReady

TICK_S = 0.1
WORKERS = 8
CALM_S = 2.0
"""Before the first fault."""

RECOVERY_S, ANSWERED_WITHIN_S = 10.0, 60.0
"""After the last cure the workload goes on for so long, and up to the second until it gets an answer: a machine that
stands still for a while is no fault of the cluster."""


class Files(NamedTuple):
    """Where a run keeps what it makes; `data` is the brokers'."""

    folder: Path

    @property
    def history(self) -> Path:
        return self.folder / "history.jsonl"

    @property
    def data(self) -> Path:
        return self.folder / "data"


def run(
    files: Files,
    *,
    brokers: int,
    seconds: float,
    seed: int,
    rate: float,
    kinds: Collection[str],
    transactions: bool = True,
    late_s: float = LATE_S,
    tell: Callable[[str], None],
) -> Report:
    """NotReady where the cluster does not come up at all."""
    files.folder.mkdir(parents=True, exist_ok=True)
    with Arena(files.data, files.folder, brokers, seed=seed, late_s=late_s) as arena:
        for kind, reason in sorted(arena.skipped.items()):
            if kind in kinds:
                tell(f"fault {kind} is skipped: {reason}")
        report = Report(seed=seed, brokers=brokers, seconds=seconds, skipped=arena.skipped)
        place = ground.prepare(arena.supervisor.bootstrap, topics=2, partitions=3)
        plan = Plan(
            seconds=seconds,
            rate=rate,
            workers=WORKERS,
            seed=seed,
            transactions=transactions,
            about={"chaos": True, "brokers": brokers},
        )
        workload = Workload(place, plan, files.history)
        workload.start()
        began = time.monotonic() - workload.recorder.seconds
        runner = _Runner(arena, workload, report, tell)
        runner.disturb(seconds, [kind for kind in schedule.KINDS if kind in kinds and kind not in arena.skipped])
        runner.heal()
        workload.finish(tell)
        arena.look()
        report.late = _late(arena, began)
        _judge(report, files)
        report.problems += _replicas(arena, files, tell)
        if not report.is_good:
            arena.keep_disks(files.folder)
    report.problems += arena.ends
    return report


def _late(arena: Arena, began: float) -> list[Late]:
    return [
        Late(
            each.api,
            each.source,
            each.target,
            round(each.sent_at - began, 2),
            round(each.arrived_at - began, 2),
            each.answer,
        )
        for each in arena.late
    ]


def _judge(report: Report, files: Files) -> None:
    with files.history.open(encoding="utf-8") as lines:
        history = parse(lines)
    report.verdict = verify(history)
    report.timeline = timeline(history)
    report.longest_silence_s = longest_silence(history, report.healed_s)


def _replicas(arena: Arena, files: Files, tell: Callable[[str], None]) -> list[str]:
    """What is wrong with the replicas themselves, whether a client saw it or not."""
    try:
        found = replicas.audit(arena.supervisor.bootstrap, files.history)
    except ApiError as error:
        return [f"the replicas could not be audited: {error}"]
    tell(f"audited the replicas of {len(found.partitions)} partitions, {found.bytes} bytes")
    return list(replicas.problems(found))


class _Runner:
    def __init__(self, arena: Arena, workload: Workload, report: Report, tell: Callable[[str], None]) -> None:
        self._arena = arena
        self._workload = workload
        self._report = report
        self._tell = tell

    def disturb(self, seconds: float, kinds: Collection[str]) -> None:
        """Round after round until the time is over; what was begun is cured."""
        until = time.monotonic() + seconds
        self._wait(CALM_S)
        for each in schedule.rounds(self._report.seed, self._arena.brokers, list(kinds)):
            if time.monotonic() >= until:
                return
            self._round(each, until)
        self._wait(until - time.monotonic())

    def _round(self, each: Round, until: float) -> None:
        begun: list[tuple[Planned, Happened]] = []
        try:
            for planned in each.faults:
                begun.append((planned, self._happened(planned)))
                faults.begin(self._arena, planned)
            self._wait(min(each.lasts_s, until - time.monotonic()))
        finally:
            for planned, happened in begun:
                faults.cure(self._arena, planned)
                happened.ended_s = round(self._workload.recorder.seconds, 2)
        self._wait(min(each.rests_s, until - time.monotonic()))

    def _happened(self, planned: Planned) -> Happened:
        happened = Happened(planned.kind, planned.brokers, round(self._workload.recorder.seconds, 2))
        self._report.faults.append(happened)
        self._tell(f"{planned.kind} of broker {', '.join(map(str, planned.brokers))}")
        return happened

    def heal(self) -> None:
        """Everything runs and knows each other again, and nothing is held; then calls must get answers."""
        self._tell("healing")
        self._arena.deliver()
        try:
            self._arena.supervisor.wait_ready()
        except NotReady as reason:
            self._report.problems.append(f"the cluster did not come back: {reason}")
        self._report.healed_s = round(self._workload.recorder.seconds, 2)
        before = self._workload.recorder.acknowledged
        until = time.monotonic() + ANSWERED_WITHIN_S
        self._wait(RECOVERY_S)
        while self._workload.recorder.acknowledged == before:
            if time.monotonic() >= until:
                self._report.problems.append(
                    f"no send was acknowledged within {ANSWERED_WITHIN_S:g} s after the last cure"
                )
                return
            self._wait(TICK_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._workload.tick()
            self._arena.look()
            time.sleep(max(0.0, min(TICK_S, until - time.monotonic())))
