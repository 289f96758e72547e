"""One pass over a log: collect the last offset of each key in the dirty part, then rewrite the log up to there, one
group of segments after another.

A generator: it reads and writes a little, yields what it did, and is resumed when its caller decides; it never waits
itself. If the log changes where it is being rewritten (a truncation, a deletion), the pass stops.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.errors import ApiError, CorruptLog, DiskFailed
from tidelog.log import names, reading
from tidelog.log.compaction import replacement
from tidelog.log.compaction.candidates import Candidate
from tidelog.log.compaction.offset_map import OffsetMap
from tidelog.log.compaction.replacement import Rewritten
from tidelog.log.compaction.steps import Flush, Steps, Worked
from tidelog.log.compaction.survivors import (
    RECORDS_PER_STEP,
    PassedTransactions,
    RetentionRules,
    emptied,
    last_of_producers,
    payload_in,
)
from tidelog.log.index import MAX_RELATIVE_OFFSET
from tidelog.log.log import Log
from tidelog.log.recovery import marker_of
from tidelog.log.segment import Segment
from tidelog.wire.record_format import outline
from tidelog.wire.records import BatchHeader, batches, check_crc, header

STEP_BYTES = 256 * 1024


class Compacted(NamedTuple):
    """The log is clean below `end`; sizes in bytes before and after."""

    end: int
    bytes_before: int
    bytes_after: int


def compact(found: Candidate, wall: int, memory_bytes: int) -> Steps[Compacted | None]:
    """None if the log changed in the meantime. Raises DiskFailed if the disk refuses, and CorruptLog if the log cannot
    be compacted: nothing of it has changed then."""
    newest, log = OffsetMap(memory_bytes), found.log
    try:
        sizes = yield from _replace_all(log, found, wall, newest)
    except ApiError as error:
        raise CorruptLog(f"{log.folder}: {error}") from error
    for _ in newest.emptied():
        yield Worked()
    if sizes is None or _is_outdated(log, found.removals):
        return None
    log.cleaned_to = newest.end
    return Compacted(newest.end, *sizes)


def _replace_all(log: Log, found: Candidate, wall: int, newest: OffsetMap) -> Steps[tuple[int, int] | None]:
    """Rewrite every group; returns the sizes before and after."""
    removals = found.removals
    if not (yield from _build_offset_map(log, found, newest, removals)):
        return None
    for _ in newest.mark(found.first_dirty):
        yield Worked()
    if _is_outdated(log, removals):
        return None
    rules = RetentionRules(
        newest, PassedTransactions(), last_of_producers(log.producers), wall, log.config.delete_retention_ms
    )
    before = after = 0
    for group in _groups(log, newest.end):
        if _is_outdated(log, removals):
            return None
        sizes = sum(segment.size for segment in group)
        rewritten = yield from _rewrite(log, group, rules, removals)
        if rewritten is None or not (yield from replacement.replace(log, group, rewritten)):
            return None
        before, after = before + sizes, after + sum(segment.size for segment in rewritten)
    return before, after


def _build_offset_map(log: Log, found: Candidate, newest: OffsetMap, removals: int) -> Steps[bool]:
    """Fill the map from the dirty part until its memory is full; returns whether the log did not change."""
    passed = PassedTransactions()
    first = log.segments.floor(found.first_dirty)
    dirty = [segment for segment in list(log.segments)[first:-1] if segment.base_offset < found.end]
    newest.end = found.first_dirty
    for segment in dirty:
        reach = _reach(log, segment)
        passed.add(reading.aborted(log.segments, max(segment.base_offset, found.first_dirty), reach))
        for chunk, batch in _walk(log, segment, found.first_dirty):
            if newest.is_full:
                return True
            if batch.is_control:
                passed.is_marker_alone(batch, marker_of(chunk[batch.position : batch.end]))
            elif passed.is_aborted(batch):
                newest.pass_over(batch.base_offset, batch.next_offset)
            else:
                yield from _map_batch(chunk, batch, found.first_dirty, newest)
            newest.end = max(newest.end, batch.next_offset)
            yield Worked(batch.length)
            if _is_outdated(log, removals):
                return False
        newest.end = max(newest.end, reach)
    return True


def _map_batch(chunk: memoryview, batch: BatchHeader, first_dirty: int, newest: OffsetMap) -> Steps[None]:
    payload = yield from payload_in(chunk, batch)
    for some in outline(payload, batch.count, RECORDS_PER_STEP):
        newest.put_all(some.keys, some.deltas, batch.base_offset, first_dirty)
        if len(some) == RECORDS_PER_STEP:
            yield Worked()


def _groups(log: Log, end: int) -> list[list[Segment]]:
    """Adjacent segments that together fit into one, so that small segments are merged."""
    size_limit, index_limit = log.segment_bytes, log.config.segment_index_bytes
    groups: list[list[Segment]] = []
    total = total_index = 0
    for number, segment in enumerate(list(log.segments)[:-1]):
        if segment.base_offset >= end:
            break
        total += segment.size
        total_index += segment.index_bytes
        last = log.segments.end_of(number, log.log_end_offset) - 1
        fits = total <= size_limit and total_index <= index_limit
        if groups and fits and last - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            total, total_index = segment.size, segment.index_bytes
    return groups


def _rewrite(log: Log, group: list[Segment], rules: RetentionRules, removals: int) -> Steps[list[Segment] | None]:
    """The remaining records of the group, in durable `.cleaned` files; None if the log changed in the meantime. If a
    pass is dropped half-way, recovery removes its files: a late removal must not touch the files of a new log in the
    same folder."""
    output = Rewritten(log, group[0].base_offset)
    survivor = batch = None
    try:
        for segment in group:
            rules.transactions.add(reading.aborted(log.segments, segment.base_offset, _reach(log, segment)))
            for chunk, batch in _walk(log, segment):
                survivor = yield from rules.survivor(chunk, batch)
                yield Worked(batch.length + (len(survivor.data) if survivor is not None else 0))
                if _is_outdated(log, removals):  # the folder may have gone: no file is opened before this is known
                    output.discard()
                    return None
                if survivor is not None:
                    output.take(survivor, batch)
                for aborted in rules.transactions.take_kept():
                    output.note_aborted(aborted)
        if batch is not None and survivor is None:
            output.take(emptied(batch), batch)  # so that the next segment begins where this one ends
        yield Flush(output.finish())
    except (ApiError, CorruptLog, DiskFailed):
        output.discard()
        raise
    output.close()
    if _is_outdated(log, removals):
        output.discard()
        return None
    return output.segments


def _reach(log: Log, segment: Segment) -> int:
    """One past the last offset that the segment may contain."""
    return log.segments.end_of(log.segments.floor(segment.base_offset), log.log_end_offset)


def _is_outdated(log: Log, removals: int) -> bool:
    """Whether records were removed from the log since the pass started."""
    return log.failed or log.removals != removals


def _walk(log: Log, segment: Segment, offset: int = 0) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Every batch that ends at or above `offset`, with the chunk it was read in; of damaged ones what was refetched.
    Raises ApiError if another one is damaged."""
    position = segment.offsets.floor(offset)
    refetched = {
        at: found
        for (of, at), found in log.segments.refetched.items()
        if of is segment and found.removals == log.removals
    }
    while position < segment.size:
        if position in refetched:
            _, length, records = refetched[position]
            yield from ((memoryview(records), batch) for batch in batches(records) if batch.last_offset >= offset)
            position += length
            continue
        limit = min((at for at in refetched if at > position), default=segment.size) - position
        chunk = memoryview(segment.file.read(position, min(STEP_BYTES, limit)))
        length = header(chunk).length
        if length > len(chunk):
            chunk = memoryview(segment.file.read(position, min(length, limit)))
        end = 0
        for batch in batches(chunk):
            check_crc(chunk, batch)
            end = batch.end
            if batch.last_offset >= offset:
                yield chunk, batch
        if not end:
            raise CorruptLog(f"{segment.path(names.LOG)}: a batch at byte {position} is cut off")
        position += end
