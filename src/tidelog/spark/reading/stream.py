"""The streaming reader: micro-batches from the starting offsets on.

With `commitGroup`, the offsets of finished batches are committed for a group, so that lag tools can see them. They are
never read back: only Spark's checkpoint decides where a query resumes.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tidelog.errors import RETRIABLE, ApiError
from tidelog.shell.transport import Consumer
from tidelog.spark.options import BadOption
from tidelog.spark.reading.data_loss import Losses, resume_offsets
from tidelog.spark.reading.limits import OffsetLimit
from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.offsets import Json, Offsets, QueryOffset, cut, limited, spans
from tidelog.spark.reading.read_options import ReadOptions

_log = logging.getLogger(__name__)

PATIENCE_MS = 10_000
"""How long a batch waits for a coordinator; the next batch commits what this one could not."""


class GroupCommitter:
    """Commits for a group without members."""

    def __init__(self, options: ReadOptions) -> None:
        self._group = options.commit_group
        patience = min(options.client.default_api_timeout_ms, PATIENCE_MS)
        given = {**asdict(options.client), "enable_auto_commit": False, "default_api_timeout_ms": patience}
        del given["group_id"]
        self._consumer = Consumer(options.bootstrap, self._group, **given)
        self._shown: Offsets = {}

    def show(self, offsets: Offsets) -> None:
        """Commit what changed. Transient errors are only logged, because the query's own progress does not depend on
        it."""
        if offsets == self._shown:
            return
        try:
            self._consumer.commit({(name.topic, name.partition): offset for name, offset in offsets.items()})
        except ApiError as error:
            if error.code not in RETRIABLE:
                raise BadOption(
                    f"option 'commitGroup': offsets cannot be committed for group {self._group!r}: {error} "
                    f"({error.code.name}); name a group that no consumer is a member of"
                ) from None
            _log.warning("could not commit the batch for group %s: %s", self._group, error)
        else:
            self._shown = offsets

    def close(self) -> None:
        self._consumer.close()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets in the checkpoint are JSON by topic and partition. Partitions that are added later are read from their
    start. Spark keeps one reader on the driver as long as the query runs, and sends copies to executors."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._lookup: OffsetLookup | None = None
        self._progress: GroupCommitter | None = None
        self._is_bounded = False
        self._target: QueryOffset | None = None
        self._latest: QueryOffset | None = None
        self._last_batch_ms = 0
        self._losses = Losses(fails=options.fail_on_data_loss)

    def __getstate__(self) -> dict[str, Any]:
        """Readers are sent to executors without their connections."""
        return {**self.__dict__, "_lookup": None, "_progress": None}

    @property
    def lookup(self) -> OffsetLookup:
        if self._lookup is None:
            self._lookup = OffsetLookup(self._options)
        return self._lookup

    def initialOffset(self) -> Json:  # noqa: N802  Spark's name
        found = self.lookup.assigned()
        latest = self.lookup.latest(QueryOffset())
        limit = self._options.starting
        start = self.lookup.resolve(limit, found.epochs, starting=True)
        if isinstance(limit, OffsetLimit):
            start = self._losses.inside(limit.option, start, self.lookup.earliest(start), self.lookup.ends(start))
        return QueryOffset(start, latest.ids, latest.epochs).to_json()

    # How far the next batch goes.

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        if self._options.max_offsets is not None:
            return ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return ReadMinRows(self._options.min_offsets)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """What exists now is the target. The next lookup, which knows the query's offsets, finds it: topics deleted
        since are then a data loss, not an invalid option."""
        self._is_bounded, self._target = True, None

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802  Spark's name
        before = QueryOffset.from_json(start)
        self._show(before)
        end = self.lookup.latest(before) if self._target is None else self._target
        self._latest = end
        self._target = end if self._is_bounded else None
        begun = resume_offsets(self._losses, self.lookup, before, end)
        offsets = {name: max(offset, begun[name]) for name, offset in end.offsets.items()}
        if self._waits(limit, begun, offsets):
            return start
        if isinstance(limit, ReadMaxRows):
            offsets = limited(begun, offsets, limit.max_rows)
        return end.moved(offsets, before).to_json()

    def _waits(self, limit: ReadLimit, start: dict[Any, int], end: dict[Any, int]) -> bool:
        """Whether minOffsetsPerTrigger requires waiting for more, until maxTriggerDelay is over. A run with
        AvailableNow ends at its target, so it never waits."""
        least = self._options.min_offsets
        if least is None or self._target is not None or isinstance(limit, ReadAllAvailable):
            return False
        now = time.monotonic_ns() // 1_000_000
        there = sum(end[name] - start[name] for name in end)
        is_due = self._last_batch_ms == 0 or now - self._last_batch_ms >= self._options.max_delay_ms
        if there < least and not is_due:
            return True
        self._last_batch_ms = now
        return False

    def reportLatestOffset(self) -> Json:  # noqa: N802  Spark's name
        """The result of the last lookup, from which Spark computes how far the query is behind."""
        return (self._latest or self.lookup.latest(QueryOffset())).to_json()

    # One batch.

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        from tidelog.spark.reading.task import range_of

        goal = QueryOffset.from_json(end)
        begun = resume_offsets(self._losses, self.lookup, QueryOffset.from_json(start), goal)
        tasks = cut(spans(begun, goal.offsets), self._options.min_partitions, self._options.max_records)
        return [InputPartition(range_of(span, goal.ids.get(span.name.topic, ""), self._options)) for span in tasks]

    def read(self, partition: Any) -> Iterator[Any]:
        from tidelog.spark.garbage import freeze_modules
        from tidelog.spark.reading.task import read

        freeze_modules()
        return read(partition.value)

    def commit(self, end: Json) -> None:
        """Spark calls this when the next batch begins."""
        self._show(QueryOffset.from_json(end))

    def _show(self, done: QueryOffset) -> None:
        """Spark's checkpoint keeps the offsets; a group sees them where commitGroup names one. Where a query stands is
        told to `latestOffset`, too, which comes also where there is nothing new."""
        if self._options.commit_group is not None:
            if self._progress is None:
                self._progress = GroupCommitter(self._options)
            self._progress.show(done.offsets)

    def stop(self) -> None:
        for each in (self._lookup, self._progress):
            if each is not None:
                each.close()
        self._lookup = self._progress = None
