"""A chaos run: start the cluster and the workload, inject faults, heal them, read everything, judge."""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from tidelog.check import replicas
from tidelog.check.chaos import faults, schedule
from tidelog.check.chaos.cluster import LATE_S, ChaosCluster
from tidelog.check.chaos.report import FaultRecord, LateArrival, Report, longest_silence, timeline
from tidelog.check.chaos.schedule import FaultRound, PlannedFault
from tidelog.check.history.text import parse
from tidelog.check.history.verdict import verify
from tidelog.check.workload import target
from tidelog.check.workload.workload import Plan, Workload
from tidelog.errors import ApiError
from tidelog.shell.supervisor import NotReady

TICK_S = 0.1
WORKERS = 8
CALM_S = 2.0
"""The time before the first fault."""

RECOVERY_S, ANSWERED_WITHIN_S = 10.0, 60.0
"""How long the workload runs after the last fault is healed, and how long it waits at most for an answer: a machine
that stalls for a while is not the cluster's fault."""


class Files(NamedTuple):
    """The files of a run; `data` holds the brokers' data."""

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
    secure: bool = False,
    quorum: bool = False,
    report_line: Callable[[str], None],
) -> Report:
    """Run chaos and return the report; NotReady if the cluster does not start."""
    files.folder.mkdir(parents=True, exist_ok=True)
    with ChaosCluster(
        files.data, files.folder, brokers, seed=seed, late_s=late_s, secure=secure, quorum=quorum
    ) as cluster:
        for kind, reason in sorted(cluster.skipped.items()):
            if kind in kinds:
                report_line(f"fault {kind} is skipped: {reason}")
        report = Report(seed=seed, brokers=brokers, seconds=seconds, skipped=cluster.skipped)
        workload_target = target.create_topics(
            cluster.supervisor.bootstrap, topics=2, partitions=3, client=cluster.supervisor.client
        )
        plan = Plan(
            seconds=seconds,
            rate=rate,
            workers=WORKERS,
            seed=seed,
            transactions=transactions,
            about={"chaos": True, "brokers": brokers},
        )
        workload = Workload(workload_target, plan, files.history)
        workload.start()
        began = time.monotonic() - workload.recorder.seconds
        runner = _Runner(cluster, workload, report, report_line)
        runner.inject_faults(
            seconds, [kind for kind in schedule.KINDS if kind in kinds and kind not in cluster.skipped]
        )
        runner.heal()
        workload.finish(report_line)
        cluster.restart_ended()
        report.late = _late(cluster, began)
        _judge(report, files)
        report.problems += _replicas(cluster, files, report_line)
        if not report.is_good:
            cluster.keep_disks(files.folder)
    report.problems += cluster.unexpected_ends
    return report


def _late(cluster: ChaosCluster, began: float) -> list[LateArrival]:
    return [
        LateArrival(
            each.api,
            each.source,
            each.target,
            round(each.sent_at - began, 2),
            round(each.arrived_at - began, 2),
            each.answer,
        )
        for each in cluster.late
    ]


def _judge(report: Report, files: Files) -> None:
    with files.history.open(encoding="utf-8") as lines:
        history = parse(lines)
    report.verdict = verify(history)
    report.timeline = timeline(history)
    report.longest_silence_s = longest_silence(history, report.healed_s)


def _replicas(cluster: ChaosCluster, files: Files, report_line: Callable[[str], None]) -> list[str]:
    """Errors of the replicas themselves, whether or not a client saw them."""
    try:
        found = replicas.audit(cluster.supervisor.bootstrap, files.history, cluster.supervisor.client)
    except ApiError as error:
        return [f"the replicas could not be audited: {error}"]
    report_line(f"audited the replicas of {len(found.partitions)} partitions, {found.bytes} bytes")
    return list(replicas.problems(found))


class _Runner:
    def __init__(
        self, cluster: ChaosCluster, workload: Workload, report: Report, report_line: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._workload = workload
        self._report = report
        self._report_line = report_line

    def inject_faults(self, seconds: float, kinds: Collection[str]) -> None:
        """Inject faults round after round until the time is up; every fault is healed."""
        until = time.monotonic() + seconds
        self._wait(CALM_S)
        for each in schedule.rounds(self._report.seed, self._cluster.brokers, list(kinds)):
            if time.monotonic() >= until:
                return
            self._round(each, until)
        self._wait(until - time.monotonic())

    def _round(self, each: FaultRound, until: float) -> None:
        started: list[tuple[PlannedFault, FaultRecord]] = []
        try:
            for planned in each.faults:
                started.append((planned, self._record_fault(planned)))
                faults.begin(self._cluster, planned)
            self._wait(min(each.lasts_s, until - time.monotonic()))
        finally:
            for planned, record in started:
                faults.heal(self._cluster, planned)
                record.ended_s = round(self._workload.recorder.seconds, 2)
        self._wait(min(each.rests_s, until - time.monotonic()))

    def _record_fault(self, planned: PlannedFault) -> FaultRecord:
        record = FaultRecord(planned.kind, planned.brokers, round(self._workload.recorder.seconds, 2))
        self._report.faults.append(record)
        self._report_line(f"{planned.kind} of broker {', '.join(map(str, planned.brokers))}")
        return record

    def heal(self) -> None:
        """Wait until all brokers run and know each other, and nothing is held; then calls must be answered again."""
        self._report_line("healing")
        self._cluster.deliver()
        try:
            self._cluster.supervisor.wait_ready()
        except NotReady as reason:
            self._report.problems.append(f"the cluster did not recover: {reason}")
        self._report.healed_s = round(self._workload.recorder.seconds, 2)
        before = self._workload.recorder.acknowledged
        until = time.monotonic() + ANSWERED_WITHIN_S
        self._wait(RECOVERY_S)
        while self._workload.recorder.acknowledged == before:
            if time.monotonic() >= until:
                self._report.problems.append(
                    f"no send was acknowledged within {ANSWERED_WITHIN_S:g} s after the last fault was healed"
                )
                return
            self._wait(TICK_S)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._workload.tick()
            self._cluster.restart_ended()
            time.sleep(max(0.0, min(TICK_S, until - time.monotonic())))
