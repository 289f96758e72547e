"""The groups of one partition: their lag at each measurement, and when one stops or resumes. Arithmetic, and its state.

A group has stopped when it has had records to read for `stopped_after` milliseconds without progress. It resumes when
it makes progress, has nothing left to read, or is deleted. Each change is reported once.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

LAG, STOPPED, RESUMED = "lag", "stopped", "resumed"
OUTCOME = (
    "kind string, name string, topic string, partition int, committed bigint, end bigint, lag bigint, at bigint, "
    "since bigint"
)

COLUMNS = tuple(column.split()[0] for column in OUTCOME.split(", "))


class LagChange(NamedTuple):
    """`since`: when it last moved, or fell behind; in milliseconds, as `at`."""

    kind: str
    name: str
    committed: int
    end: int
    lag: int
    at: int
    since: int


@dataclass
class GroupProgress:
    """One group's progress in the partition. `behind_since` is None while it has nothing to read."""

    committed: int
    moved_at: int
    behind_since: int | None = None
    has_stopped: bool = False


class PartitionGroups:
    """The groups of one partition by name."""

    def __init__(self, groups: Mapping[str, GroupProgress] | None = None) -> None:
        self.groups = dict(groups or {})

    def commit(self, name: str, committed: int | None, at: int) -> Iterator[LagChange]:
        """A group committed, or its offset was deleted (None)."""
        progress = self.groups.get(name)
        if committed is None:
            self.groups.pop(name, None)
        elif progress is None:
            self.groups[name] = GroupProgress(committed, at)
        elif committed != progress.committed:
            yield from _resumed(name, progress, committed, at)
            progress.committed, progress.moved_at, progress.has_stopped = committed, max(at, progress.moved_at), False

    def look(self, end: int, at: int, stopped_after: int) -> Iterator[LagChange]:
        """The partition's end offset was read."""
        for name, progress in sorted(self.groups.items()):
            lag = max(0, end - progress.committed)
            if lag == 0:
                yield from _resumed(name, progress, progress.committed, at)
                progress.behind_since, progress.has_stopped = None, False
            elif progress.behind_since is None:
                progress.behind_since = at
            since = at if progress.behind_since is None else max(progress.behind_since, progress.moved_at)
            yield LagChange(LAG, name, progress.committed, end, lag, at, since)
            if lag and not progress.has_stopped and at - since >= stopped_after:
                progress.has_stopped = True
                yield LagChange(STOPPED, name, progress.committed, end, lag, at, since)

    def to_text(self) -> str:
        return json.dumps({name: asdict(progress) for name, progress in self.groups.items()})

    @classmethod
    def from_text(cls, text: str) -> "PartitionGroups":
        return cls({name: GroupProgress(**progress) for name, progress in json.loads(text).items()})


def _resumed(name: str, progress: GroupProgress, committed: int, at: int) -> Iterator[LagChange]:
    if progress.has_stopped:
        yield LagChange(RESUMED, name, committed, committed, 0, at, progress.moved_at)


class GroupLagProcessor(StatefulProcessor):
    """What Spark runs for each partition. Its rows are commits (`name` is a group) and end offsets (`name` is null)."""

    def __init__(self, stopped_after: int) -> None:
        self._stopped_after = stopped_after

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("groups", "text string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: ARG002, N802, N803
        """Commits come before end offsets: those of the same batch were not read before the commits."""
        kept = self._state.get()
        watched = PartitionGroups.from_text(kept[0]) if kept else PartitionGroups()
        topic, partition = key
        for change in _apply(watched, list(rows), self._stopped_after):
            found = {**change._asdict(), "topic": topic, "partition": partition}
            yield Row(**{column: found[column] for column in COLUMNS})
        self._state.update((watched.to_text(),))

    def close(self) -> None:
        """Nothing is held."""


def _apply(watched: PartitionGroups, rows: list[Any], stopped_after: int) -> Iterator[LagChange]:
    for row in sorted((row for row in rows if row.name is not None), key=lambda row: row.place):
        yield from watched.commit(row.name, row.committed, row.at)
    for row in sorted((row for row in rows if row.name is None), key=lambda row: row.at):
        yield from watched.look(row.end, row.at, stopped_after)
