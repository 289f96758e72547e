"""The verdict: all kinds of anomalies, their meaning, whether Kafka allows them, and the figures of a history."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidelog.check.history.anomalies import Anomaly, commits, cycles, lost_records, order, wrong_records
from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import ASSIGN, CRASH, FAIL, INFO, OK, POLL, SUBSCRIBE, Header, History

NS_PER_MS = 1_000_000


class Kind(NamedTuple):
    meaning: str
    is_allowed: bool = False


KINDS: Mapping[str, Kind] = {
    lost_records.LOST: Kind("acknowledged, never read, although a later record was"),
    lost_records.UNSEEN: Kind("acknowledged, but not read by the end"),
    wrong_records.DUPLICATE: Kind("one value at two offsets"),
    wrong_records.INCONSISTENT: Kind("two values at one offset"),
    wrong_records.UNWRITTEN: Kind("read, but nobody sent it"),
    wrong_records.ABORTED: Kind("read, although its send or transaction failed (G1a)"),
    wrong_records.PRECOMMITTED: Kind("a transaction read its own send"),
    order.INTERNAL_POLL_SKIP: Kind("a poll skipped a record between two others"),
    order.INTERNAL_POLL_NONMONOTONIC: Kind("a poll went back"),
    order.POLL_SKIP: Kind("a consumer's next poll skipped a record"),
    order.POLL_NONMONOTONIC: Kind("a consumer's next poll went back"),
    order.INTERNAL_SEND_NONMONOTONIC: Kind("two records of one call are in the wrong order"),
    order.SEND_NONMONOTONIC: Kind("two records of one producer are in the wrong order"),
    order.ACK_BELOW_KNOWN: Kind("written below an offset that was already acknowledged"),
    lost_records.MISMATCH: Kind("an acknowledged offset has another value at the end"),
    lost_records.VANISHED: Kind("read once, but missing at the end"),
    lost_records.UNFINISHED: Kind("no process read everything to the end"),
    commits.COMMIT_BEYOND_POLL: Kind("a group's committed offset beyond what was read"),
    commits.LOST_COMMIT: Kind("a group's committed offset is gone"),
    "wr-cycle": Kind("calls that read each other's values"),
    "wr-cycle-process": Kind("the same, with the order of a process"),
    "wr-cycle-realtime": Kind("the same, with the order of the clock"),
    "G0": Kind("writes of several calls interleave", is_allowed=True),
    "G0-process": Kind("the same, with the order of a process", is_allowed=True),
    "G0-realtime": Kind("the same, with the order of the clock", is_allowed=True),
    "G1c": Kind("writes and reads of several calls interleave", is_allowed=True),
    "G1c-process": Kind("the same, with the order of a process", is_allowed=True),
    "G1c-realtime": Kind("the same, with the order of the clock", is_allowed=True),
    order.INTERNAL_SEND_SKIP: Kind("other records are between two records of one call", is_allowed=True),
    f"{order.POLL_SKIP}-{order.SUBSCRIBED}": Kind(
        "a member of a group resumed beyond what it had read", is_allowed=True
    ),
    f"{order.POLL_NONMONOTONIC}-{order.SUBSCRIBED}": Kind("a group's member read again", is_allowed=True),
}
"""In the order of a report. Allowed: Kafka does not isolate writes, and a group begins at its committed offsets."""

FAMILIES: Sequence[Callable[[Facts], Iterable[Anomaly]]] = (
    lost_records.find_unread_records,
    wrong_records.find_conflicting_records,
    wrong_records.find_uncommitted_reads,
    order.find_polls_out_of_order,
    order.find_sends_out_of_order,
    lost_records.find_records_gone_at_the_end,
    commits.find_wrong_commits,
    cycles.find_cycles,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`anomalies` by kind, in the order of `KINDS`; kinds without anomalies are left out."""

    header: Header
    anomalies: Mapping[str, Sequence[Anomaly]]
    figures: Mapping[str, Any]

    @property
    def broken(self) -> list[Anomaly]:
        """The anomalies that are not allowed."""
        return [each for kind, found in self.anomalies.items() if not KINDS[kind].is_allowed for each in found]

    @property
    def is_good(self) -> bool:
        return not self.broken

    def as_json(self, most: int = 20) -> dict[str, Any]:
        """Plain data, with at most `most` anomalies of each kind."""
        return {
            "valid": self.is_good,
            "anomalies": {
                kind: {
                    "count": len(found),
                    "allowed": KINDS[kind].is_allowed,
                    "meaning": KINDS[kind].meaning,
                    "evidence": [{**each._asdict(), "text": each.text(self.header)} for each in found[:most]],
                }
                for kind, found in self.anomalies.items()
            },
            "figures": dict(self.figures),
        }


def verify(history: History) -> Verdict:
    facts = Facts(history)
    found = [anomaly for family in FAMILIES for anomaly in family(facts)]
    by_kind = {kind: [each for each in found if each.kind == kind] for kind in KINDS}
    return Verdict(history.header, {kind: each for kind, each in by_kind.items() if each}, figures(facts))


# Figures.


def figures(facts: Facts) -> dict[str, Any]:
    """Counts, and the lag of polls in milliseconds."""
    fates = Counter(write.fate for writes in facts.writes.values() for write in writes.values())
    calls = Counter(f"{call.invoke.f} {call.outcome}" for call in facts.calls)
    lags = sorted(_lags(facts))
    return {
        "calls": dict(sorted(calls.items())),
        "processes": len({call.invoke.process for call in facts.calls}),
        "partitions": len(facts.versions),
        "values_sent": sum(fates.values()),
        "values_certain": fates[OK],
        "values_indeterminate": fates[INFO],
        "values_failed": fates[FAIL],
        "values_read": sum(len(reads) for reads in facts.reads.values()),
        "reads": sum(len(seen) for reads in facts.reads.values() for seen in reads.values()),
        "read_again_under_subscribe": _read_again(facts),
        "scans": len(facts.scans),
        "lag_ms_p50": _share(lags, 0.5),
        "lag_ms_p99": _share(lags, 0.99),
        "lag_ms_max": _share(lags, 1.0),
    }


def _share(values: list[float], share: float) -> float | None:
    return round(values[min(len(values) - 1, int(share * len(values)))], 1) if values else None


def _lags(facts: Facts) -> Iterator[float]:
    """For each poll and partition that its process had read: for how long the first record beyond its position had been
    acknowledged when the poll began. A lower bound, because unacknowledged records are not counted."""
    acknowledged = {key: _acknowledged(facts, key) for key in facts.versions}
    for process_calls in facts.by_process().values():
        positions: dict[int, int] = {}
        for call in process_calls:
            if call.invoke.f in (ASSIGN, SUBSCRIBE, CRASH):
                positions = {}
            if call.invoke.f != POLL or call.outcome != OK:
                continue
            for poll in call.polls:
                positions.update({key: records[-1][0] for key, records in poll.records.items() if records})
            for key, offset in positions.items():
                offsets, times = acknowledged[key]
                after = bisect_right(offsets, offset)
                acknowledged_at = times[after] if after < len(offsets) else call.invoke.t_ns
                yield max(0, call.invoke.t_ns - acknowledged_at) / NS_PER_MS


def _acknowledged(facts: Facts, key: int) -> tuple[list[int], list[int]]:
    """The acknowledged offsets, ascending, and the time from which each was known."""
    acknowledged_at = sorted(
        (write.offset, write.call.end.t_ns)
        for write in facts.writes[key].values()
        if write.fate == OK and write.offset is not None and write.call.end is not None
    )
    return [offset for offset, _ in acknowledged_at], [moment for _, moment in acknowledged_at]


def _read_again(facts: Facts) -> int:
    """The number of values that a subscribed process read more than once."""
    subscribed = {call.invoke.process for call in facts.calls if call.invoke.f == SUBSCRIBE}
    again = 0
    for reads in facts.reads.values():
        for seen in reads.values():
            times = Counter(read.call.invoke.process for read in seen if read.call.invoke.process in subscribed)
            again += sum(count > 1 for count in times.values())
    return again
