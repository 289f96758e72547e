"""Flights of one carrier and airport, collected hour by hour until the watermark passes: arithmetic, and its state.

An hour is closed when the watermark reaches its end, and reported once. Flights of a closed hour are late and are
reported as such; Spark's own windows would drop them silently. A flight that appears twice in its open hour counts
once. The state is one text for each carrier and airport, because each access to Spark's state store is a round trip.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

HOUR_MS = 3_600_000
LATE = "late"
TICK = "tick"
"""The `reason` of records that only move the watermark."""
COUNTED = (
    "flights bigint, cancelled bigint, departed bigint, departure_delay double, "
    "arrived bigint, arrival_delay double, worst_arrival_delay double"
)
"""Delays are sums in minutes over the flights that departed, or arrived."""
COUNTS = tuple(column.split()[0] for column in COUNTED.split(", "))
RAW = "key binary, value binary, topic string, partition int, offset bigint"
SOURCE = tuple(column.split()[0] for column in RAW.split(", "))
OUTCOME = f"carrier string, origin string, hour_ms bigint, {COUNTED}, reason string, {RAW}"
"""A closed hour with its counts, or a rejected record with the reason."""
EMPTY = dict.fromkeys(column.split()[0] for column in OUTCOME.split(", "))


class Hour:
    """One hour of one carrier at one airport."""

    def __init__(self, seen: Iterable[str] = (), counts: Iterable[Any] = (0, 0, 0, 0.0, 0, 0.0, None)) -> None:
        self.seen = set(seen)
        self.counts = dict(zip(COUNTS, counts, strict=True))

    def add(self, identity: str, departure_delay: float | None, arrival_delay: float | None) -> None:
        """Count a flight, unless it was counted before; delays in minutes, None if it did not depart, or arrive."""
        if identity in self.seen:
            return
        self.seen.add(identity)
        counts = self.counts
        counts["flights"] += 1
        if departure_delay is None:
            counts["cancelled"] += 1
        else:
            counts["departed"] += 1
            counts["departure_delay"] += departure_delay
        if arrival_delay is not None:
            counts["arrived"] += 1
            counts["arrival_delay"] += arrival_delay
            worst = counts["worst_arrival_delay"]
            counts["worst_arrival_delay"] = arrival_delay if worst is None else max(worst, arrival_delay)


Hours = dict[int, Hour]
"""By the hour's start in milliseconds."""


def to_text(hours: Mapping[int, Hour]) -> str:
    return json.dumps([[start, sorted(hour.seen), list(hour.counts.values())] for start, hour in hours.items()])


def from_text(text: str) -> Hours:
    return {start: Hour(seen, counts) for start, seen, counts in json.loads(text)}


def is_closed(start: int, watermark: int) -> bool:
    return start + HOUR_MS <= watermark


def take_closed(hours: Hours, watermark: int) -> Hours:
    """Remove and return the hours that the watermark has passed."""
    return {start: hours.pop(start) for start in sorted(hours) if is_closed(start, watermark)}


class HourlyDelaysProcessor(StatefulProcessor):
    """What Spark runs for each carrier and airport; rows that already have a reason only pass through."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("hours", "text string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        watermark = timerValues.getCurrentWatermarkInMs()
        hours = self._hours()
        first = min(hours, default=None)
        for row in rows:
            if row.reason == TICK:
                continue
            if row.reason is not None or is_closed(row.hour_ms, watermark):
                yield _refused(row)
            else:
                hours.setdefault(row.hour_ms, Hour()).add(row.identity, row.dep_delay, row.arr_delay)
        self._keep(hours, first)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        hours = self._hours()
        closed = take_closed(hours, timerValues.getCurrentWatermarkInMs())
        self._keep(hours, None)
        carrier, origin = key
        for start, hour in closed.items():
            yield Row(**{**EMPTY, "carrier": carrier, "origin": origin, "hour_ms": start, **hour.counts})

    def close(self) -> None:
        """Nothing is held."""

    def _hours(self) -> Hours:
        kept = self._state.get()
        return from_text(kept[0]) if kept else {}

    def _keep(self, hours: Hours, first: int | None) -> None:
        """Set one timer, for the hour that closes first, unless it is set; when it fires it sets the next one."""
        if not hours:
            self._state.clear()
            return
        self._state.update((to_text(hours),))
        if min(hours) != first:
            self._handle.registerTimer(min(hours) + HOUR_MS)


def _refused(row: Any) -> Any:
    given = {name: getattr(row, name) for name in SOURCE}
    return Row(**{**EMPTY, **given, "reason": row.reason or LATE})
