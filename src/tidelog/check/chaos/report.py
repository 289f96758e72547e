"""The result of a chaos run: faults with their times, the verdict, and the calls of each second."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import INFO, OK, POLL, SEND, TXN, History
from tidelog.check.history.verdict import Verdict

WRITES = (SEND, TXN)
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


@dataclass(slots=True)
class FaultRecord:
    """A fault; times in seconds since the history began."""

    kind: str
    brokers: tuple[int, ...]
    begun_s: float
    ended_s: float | None = None


@dataclass(frozen=True, slots=True)
class LateArrival:
    """A request that arrived after its sender had closed the connection; times in seconds since the history began.
    `answer` is an error code, None if there was no answer."""

    api: str
    source: int
    target: int
    sent_s: float
    arrived_s: float
    answer: str | None


@dataclass(frozen=True, slots=True)
class Second:
    """The calls that ended in one second, by kind, and the latency of acknowledged writes, including transactions."""

    sends: int = 0
    polls: int = 0
    without_answer: int = 0
    send_ms_p50: float | None = None
    send_ms_max: float | None = None


@dataclass(slots=True, kw_only=True)
class Report:
    """`problems` are errors beside the history: brokers that ended unexpectedly, a cluster that did not recover.
    `healed_s` is the time when the last fault was healed."""

    seed: int
    brokers: int
    seconds: float
    skipped: dict[str, str]
    faults: list[FaultRecord] = field(default_factory=list)
    late: list[LateArrival] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    healed_s: float = 0.0
    verdict: Verdict | None = None
    timeline: Sequence[Second] = ()
    longest_silence_s: float = 0.0

    @property
    def is_good(self) -> bool:
        return self.verdict is not None and self.verdict.is_good and not self.problems

    @property
    def late_counts(self) -> Counter[tuple[str, str]]:
        """The number of late requests, by API and answer."""
        return Counter((each.api, each.answer or "no answer") for each in self.late)

    def as_json(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name) for name in ("seed", "brokers", "seconds", "skipped", "problems", "healed_s")
        }
        return {
            "good": self.is_good,
            **plain,
            "longest_silence_s": self.longest_silence_s,
            "faults": [asdict(fault) for fault in self.faults],
            "late": [asdict(each) for each in self.late],
            "verdict": None if self.verdict is None else self.verdict.as_json(),
            "timeline": [asdict(second) for second in self.timeline],
        }


def timeline(history: History) -> list[Second]:
    """A `Second` for each second of the history."""
    ended: defaultdict[int, list[tuple[str, str, float]]] = defaultdict(list)
    for call in Facts(history).calls:
        if call.end is not None and call.invoke.f in (*WRITES, POLL):
            took_ms = (call.end.t_ns - call.invoke.t_ns) / NS_PER_MS
            ended[call.end.t_ns // NS_PER_S].append((call.invoke.f, call.outcome, took_ms))
    return [_second(ended[number]) for number in range(max(ended, default=-1) + 1)]


def _second(calls: Sequence[tuple[str, str, float]]) -> Second:
    latencies = sorted(took for f, outcome, took in calls if f in WRITES and outcome == OK)
    return Second(
        len(latencies),
        sum((f, outcome) == (POLL, OK) for f, outcome, _ in calls),
        sum(outcome == INFO for _, outcome, _ in calls),
        round(latencies[len(latencies) // 2], 2) if latencies else None,
        round(latencies[-1], 2) if latencies else None,
    )


def longest_silence(history: History, until_s: float) -> float:
    """The longest time without an acknowledged write, in seconds, up to `until_s`."""
    moments = [
        operation.t_ns / NS_PER_S
        for operation in history.operations
        if operation.f in WRITES and operation.type == OK and operation.t_ns < until_s * NS_PER_S
    ]
    gaps = [after - before for before, after in zip([0.0, *moments], [*moments, until_s], strict=True)]
    return round(max(gaps), 2)
