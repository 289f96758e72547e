"""Filters that say which partitions, offsets and times are wanted, turned into bounds of what is read.

A comparison of topic, partition or offset is exact, so Spark need not look again. A time only says from where on: the
first record that is young enough is found by the broker, but older ones may stand behind it, so Spark filters those.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.ranges import Span

EXACT = ("topic", "partition", "offset")


@dataclass(frozen=True)
class Bounds:
    """Offsets at least `first` and below `end`; records not older than `since` (ms), where that is said; for `topic`
    and `partition` the values that are left, None for all."""

    first: int = 0
    end: int = 1 << 63
    since: int | None = None
    values: dict[str, Container[Any]] = field(default_factory=dict)

    def within(self, whole: Iterable[Span], places: OffsetLookup) -> list[Span]:
        """What is left to read of these."""
        kept = [
            Span(span.name, max(span.start, self.first), min(span.end, self.end))
            for span in whole
            if all(getattr(span.name, column) in wanted for column, wanted in self.values.items())
        ]
        kept = [span for span in kept if span.size > 0]
        if self.since is None or not kept:
            return kept
        found = places.found({span.name: self.since for span in kept})
        young = [span for span in kept if found[span.name].offset >= 0]
        moved = [span._replace(start=max(span.start, found[span.name].offset)) for span in young]
        return [span for span in moved if span.size > 0]


def bounds_of(filters: Iterable[Any]) -> tuple[Bounds, list[Any]]:
    """The bounds, and the filters that Spark has to apply nonetheless."""
    bounds, left = Bounds(), []
    for each in filters:
        column = each.attribute[0] if hasattr(each, "attribute") and len(each.attribute) == 1 else None
        kind, value = type(each).__name__, getattr(each, "value", None)
        closer = None
        if column in EXACT:
            closer = _exact(bounds, column, kind, value)
        elif column == "timestamp" and isinstance(value, datetime):
            bounds = _since(bounds, kind, value)
        if closer is None:
            left.append(each)
        else:
            bounds = closer
    return bounds, left


def _exact(bounds: Bounds, column: str, kind: str, value: Any) -> Bounds | None:
    """The bounds with one comparison more; None where it is not one that they can hold."""
    if kind == "IsNotNull":
        return bounds  # none of these is ever null
    if column == "offset" and isinstance(value, int):
        return _offsets(bounds, kind, value)
    wanted = None if column == "offset" else _wanted(column, kind, value)
    if wanted is None:
        return None
    before = bounds.values.get(column)
    return replace(bounds, values={**bounds.values, column: wanted if before is None else _Both(before, wanted)})


def _wanted(column: str, kind: str, value: Any) -> Container[Any] | None:
    """The values for which the comparison holds."""
    if kind in ("EqualTo", "EqualNullSafe") and value is not None:
        return frozenset([value])
    if kind == "In":
        return frozenset(value)
    return _numbers(kind, value) if column == "partition" and isinstance(value, int) else None


@dataclass(frozen=True)
class _Both:
    one: Container[Any]
    other: Container[Any]

    def __contains__(self, value: Any) -> bool:
        return value in self.one and value in self.other


def _numbers(kind: str, value: int) -> range | None:
    most = 1 << 31
    ranges = {
        "GreaterThan": range(value + 1, most),
        "GreaterThanOrEqual": range(value, most),
        "LessThan": range(value),
        "LessThanOrEqual": range(value + 1),
    }
    return ranges.get(kind)


def _offsets(bounds: Bounds, kind: str, value: int) -> Bounds | None:
    first, end = {
        "EqualTo": (value, value + 1),
        "EqualNullSafe": (value, value + 1),
        "GreaterThan": (value + 1, bounds.end),
        "GreaterThanOrEqual": (value, bounds.end),
        "LessThan": (0, value),
        "LessThanOrEqual": (0, value + 1),
    }.get(kind, (-1, -1))
    if end < 0 <= value:
        return None
    return replace(bounds, first=max(bounds.first, first), end=min(bounds.end, max(end, 0)))


def _since(bounds: Bounds, kind: str, value: datetime) -> Bounds:
    """Records have whole milliseconds: the first one at or after `value` is at or after it rounded up."""
    if kind not in ("GreaterThan", "GreaterThanOrEqual", "EqualTo", "EqualNullSafe"):
        return bounds
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    micros = int((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    at = max(-(-micros // 1000), 0)
    return replace(bounds, since=at if bounds.since is None else max(bounds.since, at))
