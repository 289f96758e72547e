"""Whether what a query has read, or is about to read, still exists: topics may be deleted and created again, and
partitions may lose their start to retention and their end to an unclean election."""

import logging
from collections.abc import Mapping

from tidelog.client.admin import Leader
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.spark.reading.offset_lookup import OffsetLookup
from tidelog.spark.reading.offsets import Offsets, QueryOffset
from tidelog.spark.reading.topics import listed
from tidelog.wire.messages.records.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_log = logging.getLogger(__name__)


class DataLost(Exception):
    """Records that the query should have read no longer exist."""


class Losses:
    """Raises DataLost, or logs a warning if failOnDataLoss is false."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails

    def report(self, what: str) -> None:
        if self._fails:
            raise DataLost(f"{what}; set option 'failOnDataLoss' to false to go on without what is lost")
        _log.warning("%s; failOnDataLoss is false, so the query goes on", what)

    def inside(self, option: str, wanted: Offsets, first: Mapping[TopicPartition, int], end: Offsets) -> Offsets:
        """User-defined offsets, moved into the range of existing records."""
        for name, offset in wanted.items():
            if offset < first[name]:
                self.report(f"{name}: option {option!r} says {offset}, but offsets below {first[name]} were deleted")
            elif offset > end[name]:
                self.report(f"{name}: option {option!r} says {offset}, but the partition ends at {end[name]}")
        return {name: min(max(offset, first[name]), end[name]) for name, offset in wanted.items()}


def resume_offsets(losses: Losses, lookup: OffsetLookup, start: QueryOffset, end: QueryOffset) -> Offsets:
    """Where to resume from `start` on the way to `end`, for every partition of `end`. New partitions start at their
    beginning; so do, after a report, recreated ones."""
    lookup.check_topics(start)
    gone = start.offsets.keys() - end.offsets.keys()
    if gone:
        losses.report(f"partitions {listed(gone)} are gone, with their unread records")
    recreated = {topic for topic, known in start.ids.items() if end.ids.get(topic, known) != known}
    if recreated:
        losses.report(
            f"topic {', '.join(sorted(recreated))} was deleted and created again since it was read"
            " (it has another ID), and its unread records are gone"
        )
    kept = {name: at for name, at in start.offsets.items() if name in end.offsets and name.topic not in recreated}
    fresh = lookup.earliest(end.offsets.keys() - kept.keys())
    for name, first in fresh.items():
        if first > 0 and name.topic not in recreated:
            losses.report(f"{name} is new and starts at {first} instead of 0: offsets below were deleted unread")
    return {**_without_truncated(losses, lookup, start, end, kept), **fresh}


def _without_truncated(
    losses: Losses, lookup: OffsetLookup, start: QueryOffset, end: QueryOffset, kept: Offsets
) -> Offsets:
    """The offsets up to which the log is still the one that was read."""
    found = dict(kept)
    newer = [name for name in kept if end.epochs.get(name, -1) > start.epochs.get(name, 1 << 31)]
    for name, at in kept.items():
        behind = end.offsets[name] < at
        common = _common_end(lookup, name, start.epochs[name], end.epochs[name]) if name in newer else None
        to = min(end.offsets[name] if behind else at, at if common is None else common)
        if to < at:
            losses.report(
                f"{name} was read up to {at}, but its log was cut back to {to}: records that were read are gone, and "
                "others may stand at their offsets"
            )
            found[name] = to
    return found


def _common_end(lookup: OffsetLookup, name: TopicPartition, epoch: int, now: int) -> int | None:
    """Where the records of that epoch and older ones end in the log of the leader of epoch `now` (KIP-101); cached.
    None if the leader does not know."""
    key = name, epoch, now
    if key not in lookup.common_ends and (end_offset := _end_offset_of_epoch(lookup, name, epoch)) is not None:
        lookup.common_ends[key] = end_offset
    return lookup.common_ends.get(key)


def _end_offset_of_epoch(lookup: OffsetLookup, name: TopicPartition, epoch: int) -> int | None:
    wanted = OffsetForLeaderPartition(partition=name.partition, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=name.topic, partitions=[wanted])])
    end_offset = lookup.admin.ask(request, Leader(*name)).topics[0].partitions[0]
    if end_offset.error_code != ErrorCode.NONE or end_offset.end_offset < 0:
        return None
    return int(end_offset.end_offset)
