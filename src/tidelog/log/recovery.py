"""Recovery: from the files of a partition's folder to a log that can be served (STORAGE.md, section 3, in that order).

1. Finish or undo a compaction that a crash interrupted.
2. Load the segments and rebuild missing indexes.
3. After an unclean stop, read every batch from the recovery point's segment on; the log ends at the first one that is
   not whole or does not follow.
4. Bring epochs, then producers, to exactly that end: of the epochs in the checkpoint, only those that batches
   contradict are dropped, because compaction leaves epochs without a batch.
5. Write what was read above the recovery point again: an fsync may have failed before the stop (`rewriting.py`).

Below the recovery point nothing is read: it was synced. Above it only checksums are trusted, neither indexes nor
snapshots: after a truncation they may belong to other records.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from tidelog.errors import ApiError, CorruptLog
from tidelog.log import names
from tidelog.log.checkpoints import (
    LEADER_EPOCHS,
    OLD,
    PARTITION_METADATA,
    format_partition_metadata,
    read_epochs,
    read_partition_metadata,
)
from tidelog.log.epochs import EpochCache, EpochRun, agreed
from tidelog.log.interrupted import finish_replacement, remove_all
from tidelog.log.producers import EndedTransaction, Producers
from tidelog.log.rewriting import cut_again, write_again
from tidelog.log.scan import walk, whole_batches
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.snapshots import Snapshots
from tidelog.log.transactions import Aborted
from tidelog.log.truncation_markers import TruncationMarkers, marker_offsets
from tidelog.model import NO_EPOCH, NO_ID, Time
from tidelog.ports import Disk
from tidelog.wire.records import CONTROL, BatchHeader, Marker, read_marker, records


class Loaded(NamedTuple):
    """The result of recovery. `repaired` are paths that must be synced before the recovery point moves."""

    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    epochs: EpochCache
    epochs_changed: bool
    epochs_synced: bool
    producers: Producers
    snapshots: Snapshots
    repaired: list[str]
    dirty: bool
    truncation_markers: TruncationMarkers
    wrong_start: int | None = None
    """A log start from the checkpoint that was not believed."""


def create(segments: Segments, topic_id: bytes, *, recovery_point: int, log_start_offset: int, now: Time) -> Loaded:
    """An empty log in a folder that was made just now. What an earlier life left is not looked for, and an empty
    checkpoint of epochs is not written: of a new replica's time most goes into new files."""
    if topic_id != NO_ID:
        path = f"{segments.folder}/{PARTITION_METADATA}"
        segments.disk.replace(path, format_partition_metadata(topic_id), durable=False)
    segments.create(log_start_offset, now.wall, is_new=True)
    segments.active.close_file()
    return Loaded(
        log_start_offset=log_start_offset,
        log_end_offset=log_start_offset,
        recovery_point=min(recovery_point, log_start_offset),
        epochs=EpochCache(),
        epochs_changed=False,
        epochs_synced=False,
        producers=Producers(end_offset=log_start_offset),
        snapshots=Snapshots(segments.disk, segments.folder),
        repaired=[],
        dirty=False,
        truncation_markers=TruncationMarkers(segments.disk, segments.folder),
    )


def load(segments: Segments, *, recovery_point: int, log_start_offset: int, clean: bool, now: Time) -> Loaded:
    """Fill `segments` from the folder."""
    found = finish_replacement(segments.disk, segments.folder)
    load_segments(segments, found, now.wall)
    truncation_markers = TruncationMarkers(segments.disk, segments.folder, marker_offsets(found), recovery_point)
    recovery_point = min(recovery_point, truncation_markers.lowest)
    if segments:  # what was below is deleted; only the snapshot there has its producers
        recovery_point = max(recovery_point, segments.base_offset)
    repaired = _rebuild_missing_indexes(segments, set(found))
    entries = _read_epochs(segments, LEADER_EPOCHS)
    is_torn = entries is None
    if is_torn:
        entries = _read_epochs(segments, LEADER_EPOCHS + OLD)
    epochs = EpochCache(entries or ())

    first = _first_unverified(segments, recovery_point, clean=clean)
    unverified = first < len(segments)
    wrong_start = log_start_offset if clean and _contradicts(segments, entries or [], log_start_offset) else None
    if wrong_start is not None:
        log_start_offset = (entries or [(0, segments.base_offset)])[0][1]
    trusted = min(recovery_point, segments[first].base_offset) if unverified else 2**63 - 1
    if is_torn:
        epochs = agreed(epochs, _runs_of(segments, first))
    epochs = _with_epochs_below(segments, log_start_offset, epochs)
    if unverified:
        repaired += _trim_overlap(segments, first, recovery_point)
        runs, files = _recover(segments, first, truncation_markers)
        epochs = agreed(epochs, runs)
        repaired += files

    snapshots = Snapshots(segments.disk, segments.folder, _snapshot_offsets(found))
    had_segments = _activate_last(segments, snapshots, epochs, log_start_offset, now.wall)
    start, end = max(log_start_offset, segments.base_offset), segments.active.next_offset()
    segments.active.close_file()
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    if had_segments and start == end:
        _keep_last_epoch(epochs, entries or [], end)
    snapshots.remove_outside(-1, min(end, trusted))
    snapshots.remove_strays({segment.base_offset for segment in segments})
    stale = first - 1 if unverified and _ends_at(segments, first, recovery_point) else -1
    repaired += _repair_transactions(segments, snapshots, first, stale)
    producers = rebuild_producers(segments, snapshots, end, unverified_from=first)
    repaired += [segment.path(names.TRANSACTION_INDEX) for segment in list(segments)[first:-1] if segment.has_aborted]
    if unverified and end > start:
        repaired.append(snapshots.write(producers))
    if had_segments and not clean:
        write_again(segments, recovery_point)
        repaired += cut_again(segments, marker_offsets(found))
    return Loaded(
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=end if clean and not unverified else min(recovery_point, end),
        epochs=epochs,
        epochs_changed=list(epochs) != (entries or []) or (is_torn and bool(epochs or LEADER_EPOCHS in found)),
        epochs_synced=clean and not is_torn,
        producers=producers,
        snapshots=snapshots,
        repaired=repaired,
        dirty=unverified,
        truncation_markers=truncation_markers,
        wrong_start=wrong_start,
    )


def _first_unverified(segments: Segments, recovery_point: int, *, clean: bool) -> int:
    """The number of the first segment whose batches must be checked; none after a clean stop, unless the last segment
    does not end as a clean stop leaves it."""
    if not segments:
        return 0
    if not clean:
        return segments.floor(recovery_point)
    return len(segments) if _ends_whole(segments[-1]) else len(segments) - 1


def _contradicts(segments: Segments, entries: Sequence[tuple[int, int]], start: int) -> bool:
    """Whether the log's start in the checkpoint cannot be what a clean stop left: the first epoch moves with the start,
    to the same offset or to the batch that contains it. A larger start would hide records, or delete the log."""
    if not segments or not entries or start <= max(entries[0][1], segments.base_offset):
        return False
    with suppress(CorruptLog):
        batch = segments[segments.floor(start)].batch_at(start)
        return batch is None or batch.base_offset > entries[0][1]
    return False


def _activate_last(
    segments: Segments, snapshots: Snapshots, epochs: EpochCache, log_start_offset: int, now_wall: int
) -> bool:
    """Activate the last segment; returns whether there was one. If the log ends below its start in the checkpoint, its
    files were lost: it starts there, empty."""
    if segments and segments[-1].next_offset() < log_start_offset:
        remove_all(segments.disk, segments.retire_from(0))
        snapshots.remove(list(snapshots.offsets))
        epochs.clear()
    had_segments = len(segments) > 0
    if not had_segments:
        segments.create(log_start_offset, now_wall)
    segments.activate()
    return had_segments


def _keep_last_epoch(epochs: EpochCache, entries: Sequence[tuple[int, int]], end: int) -> None:
    """All records are deleted, so only the checkpoint has the last epoch. Without it this log would look less complete
    than those that never had the epoch, when the most complete log is elected."""
    for epoch, start_offset in entries:
        if epoch > epochs.latest and start_offset <= end:
            epochs.assign(epoch, end)


def load_segments(segments: Segments, found: list[str], now_wall: int) -> None:
    """Every log file is a segment; an index without a log file is removed."""
    bases = {names.offset_of(name) for name in found if names.is_kind(name, names.LOG)}
    with_aborted = {names.offset_of(name) for name in found if names.is_kind(name, names.TRANSACTION_INDEX)}
    for name in found:
        is_index = any(names.is_kind(name, kind) for kind in names.INDEXES)
        if is_index and names.offset_of(name) not in bases:
            segments.disk.remove(f"{segments.folder}/{name}")
    for base in sorted(base for base in bases if base is not None):
        path = f"{segments.folder}/{names.name(base, names.LOG)}"
        file = segments.disk.open(path)
        segment = segments.describe(base, file.size(), now_wall)
        segment.has_aborted = base in with_aborted
        file.close()
        segments.add(segment)


def _rebuild_missing_indexes(segments: Segments, found: set[str]) -> list[str]:
    files: list[str] = []
    for segment in list(segments)[:-1]:
        kinds = (names.INDEX, names.TIME_INDEX)
        if segment.size and not found.issuperset(names.name(segment.base_offset, kind) for kind in kinds):
            with suppress(CorruptLog):  # damage is reported when it is read
                segment.rebuild_indexes()
            files += segment.write_indexes()
            segment.cool()
    return files


def _read_epochs(segments: Segments, name: str) -> list[tuple[int, int]] | None:
    """None if the checkpoint is missing or torn: the last one that was synced is used, together with the epochs of the
    batches."""
    path = f"{segments.folder}/{name}"
    try:
        return read_epochs(segments.disk.read(path), path)
    except (FileNotFoundError, CorruptLog):
        return None


def _runs_of(segments: Segments, count: int) -> list[EpochRun]:
    runs: list[EpochRun] = []
    for segment in list(segments)[:count]:
        with suppress(CorruptLog):
            for batch in walk(segment.file, 0, segment.size):
                _extend_runs(runs, batch)
    return runs


def _with_epochs_below(segments: Segments, start: int, epochs: EpochCache) -> EpochCache:
    """After a crash an unsaved log start has its old value again, while the epochs were truncated at the new one. The
    epochs below are read from the batches again; otherwise a log that diverged there could not be detected."""
    earliest = epochs.earliest
    if earliest is None or not segments or earliest.start_offset <= max(start, segments.base_offset):
        return epochs
    whole = EpochCache()
    for segment in list(segments)[: segments.floor(earliest.start_offset) + 1]:
        with suppress(CorruptLog):
            for batch in walk(segment.file, 0, segment.size):
                if batch.base_offset >= earliest.start_offset:
                    break
                note_epoch(whole, batch)
    for entry in epochs:
        whole.assign(*entry)
    return whole


def note_epoch(epochs: EpochCache, batch: BatchHeader) -> None:
    if batch.leader_epoch > epochs.latest:
        epochs.assign(batch.leader_epoch, batch.base_offset)


def _extend_runs(runs: list[EpochRun], batch: BatchHeader) -> None:
    if batch.leader_epoch > (runs[-1].epoch if runs else NO_EPOCH):
        runs.append(EpochRun(batch.leader_epoch, batch.base_offset, batch.next_offset))
    elif runs:
        runs[-1] = runs[-1]._replace(end_offset=batch.next_offset)


def _ends_whole(segment: Segment) -> bool:
    """Whether the file ends where its last batch does, as after a clean stop, and its indexes end with its batches."""
    size = segment.size
    try:
        segment.next_offset()
        whole = segment.size == size and segment.last_entries_hold()
    except CorruptLog:
        whole = False
    segment.size = size
    return whole


def _recover(segments: Segments, first: int, truncation_markers: TruncationMarkers) -> tuple[list[EpochRun], list[str]]:
    """Check the segments from `first` on and truncate the log at the first invalid batch; returns the epochs of the
    batches, and the rewritten files. Bytes behind the records of a segment that was truncated, where the next one
    begins, are not of this log: a truncation was interrupted, or a power loss restored a part of the old tail."""
    runs: list[EpochRun] = []
    files: list[str] = []
    number, expected = first, segments[first].base_offset
    whole, compacted = True, False
    while whole and number < len(segments):
        segment = segments[number]
        if not (segment.base_offset == expected or (compacted and segment.base_offset > expected)):
            break
        expected, whole, compacted = _recover_segment(segment, runs)
        files += segment.write_indexes()
        number += 1
        if not whole and truncation_markers.is_above(segment.base_offset):
            whole = number < len(segments) and segments[number].base_offset == expected
            compacted = False
    if number < len(segments):
        remove_all(segments.disk, segments.retire_from(number))
        segments.disk.sync_folder(segments.folder)
    return runs, files


def _ends_at(segments: Segments, first: int, recovery_point: int) -> bool:
    """Whether the segment before `first` ends at the recovery point: its records were synced while it was active, but
    perhaps not its indexes since it was rolled."""
    return 0 < first < len(segments) and segments[first].base_offset == recovery_point


def _trim_overlap(segments: Segments, first: int, recovery_point: int) -> list[str]:
    """The previous segment may contain truncated records again, and its indexes may be from that time: a truncation
    becomes durable only with the next flush. What is below the next segment's base is whole. Returns the rewritten
    files."""
    if first == 0:
        return []
    files: list[str] = []
    before, base = segments[first - 1], segments[first].base_offset
    before.transactions.truncate(base)
    before.write_transactions()
    is_verified = _ends_whole(before) and before.next_offset() <= base and _indexes_end_below(before, base)
    if not is_verified or _ends_at(segments, first, recovery_point):
        size = before.size
        before.clear_indexes()
        expected = before.base_offset
        for batch in walk(before.file, 0, size, torn=True):
            if batch.base_offset >= base:
                break
            before.check_follows(batch, expected)
            expected = batch.next_offset
            before.note(batch.length, batch.last_offset, batch.latest_timestamp)
        if before.size < size:
            before.file.truncate(before.size)
            before.file.sync()
        files = before.write_indexes()
    before.cool()
    return files


def _indexes_end_below(segment: Segment, offset: int) -> bool:
    position_entry, time_entry = segment.offsets.last, segment.times.last
    return (position_entry is None or position_entry[0] < offset) and (time_entry is None or time_entry[1] < offset)


def _recover_segment(segment: Segment, runs: list[EpochRun]) -> tuple[int, bool, bool]:
    """(one past the last whole batch, whether that is the end of the file, whether offsets are missing: then the
    segment was compacted, and the next one need not begin where this one ends). Bytes behind the last whole batch are
    truncated."""
    compacted = False
    size, expected = segment.size, segment.base_offset
    file = segment.file
    segment.clear_indexes()
    segment.transactions.truncate(0)
    for batch in whole_batches(file, size):
        if not segment.follows(batch, expected):
            break
        segment.note(batch.length, batch.last_offset, batch.latest_timestamp)
        _extend_runs(runs, batch)
        compacted = compacted or batch.base_offset > expected
        expected = batch.next_offset
    if segment.size < size:
        file.truncate(segment.size)
        file.sync()  # or a power loss could bring the old tail back behind new records
    return expected, segment.size == size, compacted


def _repair_transactions(segments: Segments, snapshots: Snapshots, count: int, stale: int) -> list[str]:
    """Rebuild invalid transaction indexes of the first `count` segments, and that of segment number `stale`; returns
    their paths."""
    repaired = []
    for number, segment in enumerate(list(segments)[:count]):
        is_wrong = segment.has_aborted and not _holds_transactions(segments, number)
        if is_wrong or number == stale:
            segment.transactions.truncate(0)
            producers = rebuild_producers(segments, snapshots, segment.base_offset)
            with suppress(CorruptLog):
                _replay(segment, producers, segment.base_offset, 2**63 - 1, note=True)
            repaired += segment.write_transactions()
            if not segment.is_active:
                segment.cool()
    return repaired


def _holds_transactions(segments: Segments, number: int) -> bool:
    """Whether the transaction index, which has no checksum, agrees with the batches: each entry ends with the marker
    that aborted it, and begins with a batch of its producer, unless that was removed since."""
    segment = segments[number]
    if not segment.transactions.is_sane(segment.base_offset):
        return False
    with suppress(CorruptLog):  # the batches are damaged, and that is reported when they are read
        for entry in segment.transactions:
            end = segment.batch_at(entry.last_offset)
            if end is None or (end.base_offset, end.producer_id) != (entry.last_offset, entry.producer_id):
                return False
            marker = marker_of(segment.file.read(end.position, end.length))
            first = segments[segments.floor(entry.first_offset)].batch_at(entry.first_offset)
            is_first = (
                first is None
                or first.base_offset > entry.first_offset
                or ((first.base_offset, first.producer_id) == (entry.first_offset, entry.producer_id))
            )
            if marker is None or marker.committed or not is_first:
                return False
    return True


def rebuild_producers(
    segments: Segments, snapshots: Snapshots, end: int, *, unverified_from: int | None = None
) -> Producers:
    """The producers as of offset `end`: the newest valid snapshot and the batches since then, including those below the
    log's start, because their producers may continue and a marker there may end a transaction of the snapshot. The
    empty transaction indexes of the segments from `unverified_from` on are filled at the same time."""
    producers = snapshots.load(end, segments.base_offset)
    begin = max(producers.end_offset, segments.base_offset)
    if begin < end:
        for number in range(segments.floor(begin), len(segments)):
            with suppress(CorruptLog):
                note = unverified_from is not None and number >= unverified_from
                _replay(segments[number], producers, begin, end, note=note)
                if note and not segments[number].is_active:
                    segments[number].write_transactions()
    producers.end_offset = end
    return producers


def _replay(segment: Segment, producers: Producers, begin: int, end: int, *, note: bool) -> None:
    for batch in walk(segment.file, segment.offsets.floor(begin), segment.size):
        if batch.base_offset >= end:
            return
        if batch.producer_id >= 0 and batch.last_offset >= begin:
            marker = None
            if batch.attributes & CONTROL:
                marker = marker_of(segment.file.read(batch.position, batch.length))
            ended = producers.apply(batch, batch.base_offset, marker)
            if note and ended is not None and not ended.committed:
                segment.note_aborted(aborted(ended, producers))


def aborted(ended: EndedTransaction, producers: Producers) -> Aborted:
    """The transaction index entry of a transaction that just ended."""
    first_open = producers.first_open_offset
    stable = ended.last_offset + 1 if first_open is None else first_open
    return Aborted(ended.producer_id, ended.first_offset, ended.last_offset, stable)


def marker_of(batch: bytes | bytearray | memoryview) -> Marker | None:
    """The marker in a control batch; None if there is none."""
    try:
        first = next(records(batch), None)
        return read_marker(first) if first is not None else None
    except ApiError:
        return None


def _snapshot_offsets(found: list[str]) -> Iterator[int]:
    for name in found:
        offset = names.offset_of(name)
        if offset is not None and names.is_kind(name, names.SNAPSHOT):
            yield offset


def claim_folder(disk: Disk, folder: str, topic_id: bytes, *, is_new: bool) -> bytes:
    """The topic ID of the folder. It is written if it is missing, or torn before anything of the log was durable
    (`is_new`). Raises CorruptLog if the folder belongs to another topic."""
    path = f"{folder}/{PARTITION_METADATA}"
    try:
        found = read_partition_metadata(disk.read(path), path)
    except FileNotFoundError:
        found = NO_ID
    except CorruptLog:
        if not is_new:
            raise
        found = NO_ID
    if found == NO_ID and topic_id != NO_ID:
        disk.replace(path, format_partition_metadata(topic_id), durable=False)
        return topic_id
    if topic_id not in (NO_ID, found):
        raise CorruptLog(f"{path}: the folder is of another topic of this name")
    return found
