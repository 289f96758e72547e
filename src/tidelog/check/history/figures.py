"""What a history amounts to, in numbers: how much was written and read, and how late it was seen."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tidelog.check.history.facts import Facts
from tidelog.check.history.operation import ASSIGN, CRASH, FAIL, INFO, OK, POLL, SUBSCRIBE

NS_PER_MS = 1_000_000


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
    """For each poll and partition that its process had read: how long the first record that it did not get had been
    acknowledged when the poll began. A lower bound: what nobody acknowledged is not counted."""
    acknowledged = {key: _acknowledged(facts, key) for key in facts.versions}
    for process_calls in facts.by_process().values():
        places: dict[int, int] = {}
        for call in process_calls:
            if call.invoke.f in (ASSIGN, SUBSCRIBE, CRASH):
                places = {}
            if call.invoke.f != POLL or call.outcome != OK:
                continue
            for poll in call.polls:
                places.update({key: records[-1][0] for key, records in poll.records.items() if records})
            for key, offset in places.items():
                offsets, moments = acknowledged[key]
                after = bisect_right(offsets, offset)
                told = moments[after] if after < len(offsets) else call.invoke.t_ns
                yield max(0, call.invoke.t_ns - told) / NS_PER_MS


def _acknowledged(facts: Facts, key: int) -> tuple[list[int], list[int]]:
    """Offsets, ascending, and from when on each was known to be acknowledged."""
    told = sorted(
        (write.offset, write.call.end.t_ns)
        for write in facts.writes[key].values()
        if write.fate == OK and write.offset is not None and write.call.end is not None
    )
    return [offset for offset, _ in told], [moment for _, moment in told]


def _read_again(facts: Facts) -> int:
    """How many values a process that subscribed got more than once."""
    subscribed = {call.invoke.process for call in facts.calls if call.invoke.f == SUBSCRIBE}
    again = 0
    for reads in facts.reads.values():
        for seen in reads.values():
            times = Counter(read.call.invoke.process for read in seen if read.call.invoke.process in subscribed)
            again += sum(count > 1 for count in times.values())
    return again
