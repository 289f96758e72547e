"""What a batch reads: the ranges between its starting and ending offsets."""

from collections.abc import Callable, Collection

from tidelog.model import TopicPartition
from tidelog.spark.options import BadOption
from tidelog.spark.reading.data_loss import Losses
from tidelog.spark.reading.limits import Limit, OffsetLimit
from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.offsets import Offsets, Span, cut, spans
from tidelog.spark.reading.read_options import ReadOptions
from tidelog.spark.reading.task import Range, range_of

Narrow = Callable[[list[Span], OffsetLookup], list[Span]]
"""Leaves out what need not be read."""


def ranges(options: ReadOptions, narrow: Narrow | None = None) -> list[Range]:
    """The ranges to read, by topic, partition and offset. BadOption if they end before they start or a partition is
    missing; DataLost for offsets outside of the log, unless failOnDataLoss is false."""
    lookup = OffsetLookup(options)
    try:
        found = lookup.assigned()
        whole = _spans(options, lookup, found.epochs)
        if narrow is not None:
            whole = narrow(whole, lookup)
    finally:
        lookup.close()
    parts = cut(whole, options.min_partitions, options.max_records)
    return [range_of(span, found.ids.get(span.name.topic, ""), options) for span in parts]


def _spans(options: ReadOptions, lookup: OffsetLookup, names: Collection[TopicPartition]) -> list[Span]:
    start = _resolved(options, lookup, options.starting, names, starting=True)
    end = _resolved(options, lookup, options.ending, names, starting=False)
    for name, offset in end.items():
        if start[name] > offset:
            raise BadOption(
                f"{name}: reading would start at {start[name]} (option {options.starting.option!r}) and end "
                f"before that at {offset} (option {options.ending.option!r}); start earlier or end later"
            )
    return spans(start, end)


def _resolved(
    options: ReadOptions, lookup: OffsetLookup, limit: Limit, names: Collection[TopicPartition], *, starting: bool
) -> Offsets:
    found = lookup.resolve(limit, names, starting=starting)
    if not isinstance(limit, OffsetLimit):
        return found
    losses = Losses(fails=options.fail_on_data_loss)
    return losses.inside(limit.option, found, lookup.earliest(names), lookup.ends(names))
