"""The batch reader: everything from the starting to the ending offsets, once."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark.options import BadOption
from tidelog.spark.reading.limits import Limit, Offsets
from tidelog.spark.reading.loss import Losses
from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.options import ReadOptions
from tidelog.spark.reading.pushdown import Bounds, bounds_of
from tidelog.spark.reading.ranges import Span, cut, spans


class BatchReader(DataSourceReader):
    """Plans on the driver, reads on executors. Partitions, offsets and times are bounded by pushed filters."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def partitions(self) -> Sequence[InputPartition]:
        from tidelog.spark.reading.task import range_of

        places = OffsetLookup(self._options)
        try:
            found = places.assigned()
            whole = self._bounds.within(self._spans(places, found.epochs), places)
        finally:
            places.close()
        tasks = cut(whole, self._options.min_partitions, self._options.max_records)
        return [range_of(span, found.ids.get(span.name.topic, ""), self._options) for span in tasks]

    def _spans(self, places: OffsetLookup, names: Any) -> list[Span]:
        start = self._resolved(places, self._options.starting, names, starting=True)
        end = self._resolved(places, self._options.ending, names, starting=False)
        for name, offset in end.items():
            if start[name] > offset:
                raise BadOption(
                    f"{name}: reading would start at {start[name]} (option {self._options.starting.option!r}) and end "
                    f"before that at {offset} (option {self._options.ending.option!r}); start earlier or end later"
                )
        return spans(start, end)

    def _resolved(self, places: OffsetLookup, limit: Limit, names: Any, *, starting: bool) -> dict[Any, int]:
        found = places.resolve(limit, names, starting=starting)
        if not isinstance(limit, Offsets):
            return found
        losses = Losses(fails=self._options.fail_on_data_loss)
        return losses.inside(limit.option, found, places.earliest(names), places.ends(names))

    def read(self, partition: Any) -> Iterator[Any]:
        from tidelog.spark.reading.task import read

        return read(partition)


class FilteringReader(BatchReader):
    """As `BatchReader`; Spark refuses a reader that takes filters unless it pushes them."""

    def pushFilters(self, filters: Any) -> Any:  # noqa: N802  Spark's name
        self._bounds, left = bounds_of(filters)
        return left
