"""How far a streaming query is: pure readings of the progress that Spark reports."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Standing(NamedTuple):
    """`rows` read so far by this run, `lag` in offsets behind the end when the last batch was planned, None where
    that is not told."""

    batch: int
    rows: int
    rate: float
    lag: int | None


class Watch:
    """Adds one query's reports up."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self.standing = Standing(-1, 0, 0.0, None)

    def update(self, reports: list[Mapping[str, Any]]) -> bool:
        """Whether a batch has ended since."""
        before = self.standing.batch
        for report in reports:
            self._rows[report["batchId"]] = report["numInputRows"]
        if reports:
            last = reports[-1]
            rate = float(last.get("processedRowsPerSecond") or 0)
            self.standing = Standing(last["batchId"], sum(self._rows.values()), rate, lag(last["sources"]))
        return self.standing.batch != before


def lag(sources: list[Mapping[str, Any]]) -> int | None:
    """Offsets that were there and are not read, over all sources that tell."""
    found = [_behind(_offsets(each.get("endOffset")), _offsets(each.get("latestOffset"))) for each in sources]
    known = [each for each in found if each is not None]
    return sum(known) if known else None


def _behind(end: dict[str, int], latest: dict[str, int]) -> int | None:
    return sum(max(0, offset - end.get(name, 0)) for name, offset in latest.items()) if latest else None


def _offsets(value: Any) -> dict[str, int]:
    """`{"topic": {"0": 5}}`, as a text or not, by topic and partition."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, Mapping):
        return {}
    return {
        f"{topic}-{partition}": offset
        for topic, places in value.items()
        if isinstance(places, Mapping)
        for partition, offset in places.items()
        if isinstance(offset, int)
    }
