"""The batch reader: everything from the starting to the ending offsets, once, narrowed by pushed-down filters.

A filter on topic, partition or offset is applied exactly, so Spark need not apply it again. A filter on the timestamp
only moves the start: the broker finds the first record that is new enough, but older ones may follow it, and Spark
filters those.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.offsets import Span
from tidelog.spark.reading.read_options import ReadOptions

EXACT = ("topic", "partition", "offset")


@dataclass(frozen=True)
class Bounds:
    """Offsets from `first` to below `end`; records not older than `since` (ms), if given; for `topic` and `partition`
    the remaining values, None for all."""

    first: int = 0
    end: int = 1 << 63
    since: int | None = None
    values: dict[str, Container[Any]] = field(default_factory=dict)

    def within(self, whole: Iterable[Span], lookup: OffsetLookup) -> list[Span]:
        """What remains to be read of these ranges."""
        kept = [
            Span(span.name, max(span.start, self.first), min(span.end, self.end))
            for span in whole
            if all(getattr(span.name, column) in wanted for column, wanted in self.values.items())
        ]
        kept = [span for span in kept if span.size > 0]
        if self.since is None or not kept:
            return kept
        found = lookup.found({span.name: self.since for span in kept})
        young = [span for span in kept if found[span.name].offset >= 0]
        moved = [span._replace(start=max(span.start, found[span.name].offset)) for span in young]
        return [span for span in moved if span.size > 0]


def bounds_of(filters: Iterable[Any]) -> tuple[Bounds, list[Any]]:
    """The bounds, and the filters that Spark must still apply."""
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
    """The bounds with one more comparison; None if they cannot express it."""
    if kind == "IsNotNull":
        return bounds  # these columns are never null
    if column == "offset" and isinstance(value, int):
        return _offsets(bounds, kind, value)
    wanted = None if column == "offset" else _wanted(column, kind, value)
    if wanted is None:
        return None
    before = bounds.values.get(column)
    return replace(bounds, values={**bounds.values, column: wanted if before is None else _Both(before, wanted)})


def _wanted(column: str, kind: str, value: Any) -> Container[Any] | None:
    """The values that satisfy the comparison."""
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
    """Record timestamps are whole milliseconds, so the value is rounded up."""
    if kind not in ("GreaterThan", "GreaterThanOrEqual", "EqualTo", "EqualNullSafe"):
        return bounds
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    micros = int((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    at = max(-(-micros // 1000), 0)
    return replace(bounds, since=at if bounds.since is None else max(bounds.since, at))


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on executors. Pushed filters bound partitions, offsets and times."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        from tidelog.spark.reading.planning import ranges

        return [InputPartition(each) for each in ranges(self._options, self._bounds.within)]

    def read(self, partition: Any) -> Iterator[Any]:
        from tidelog.spark.garbage import freeze_modules
        from tidelog.spark.reading.task import read

        freeze_modules()
        return read(partition.value)


class FilteringReader(BatchReader):
    """As `BatchReader`, with filters: Spark rejects a reader with this method unless it pushes filters."""

    def pushFilters(self, filters: Any) -> Any:  # noqa: N802  Spark's name
        self._bounds, left = bounds_of(filters)
        return left
