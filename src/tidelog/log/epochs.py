"""Which leader epoch wrote which offsets: a sorted list of (epoch, first offset), and rule 6 of REPLICATION.md.

Pure: the log decides when to write the list to `leader-epoch-checkpoint`. Epochs and offsets strictly ascend.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tidelog.model import NO_EPOCH

NO_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class EpochRun(NamedTuple):
    """Consecutive batches of one epoch in the log; `end_offset` is exclusive."""

    epoch: int
    start_offset: int
    end_offset: int


class EpochCache:
    """The epochs of one log. Every epoch with records has an entry at its first retained offset."""

    __slots__ = ("_epochs", "_starts", "latest")

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest = NO_EPOCH
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __repr__(self) -> str:
        return f"<EpochCache {' '.join(f'{epoch}@{start}' for epoch, start in self)}>"

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[EpochEntry]:
        return map(EpochEntry, self._epochs, self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpochCache) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def earliest(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[0], self._starts[0]) if self._epochs else None

    @property
    def latest_entry(self) -> EpochEntry | None:
        return EpochEntry(self._epochs[-1], self._starts[-1]) if self._epochs else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Store that `epoch` begins at `start_offset`; returns whether that changed anything. Contradicting entries are
        dropped: their epochs wrote nothing, or their records were truncated."""
        assert epoch >= 0, epoch
        assert start_offset >= 0, start_offset
        if epoch == self.latest and start_offset >= self._starts[-1]:
            return False
        kept = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        self._keep(slice(0, kept))
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) as in OffsetsForLeaderEpoch: for the latest epoch the log's end; for an undefined epoch
        or one above all entries (-1, -1); for one below all entries the epoch itself and the start of the oldest;
        otherwise the largest epoch not above it and the start of the next one."""
        if epoch == self.latest and epoch != NO_EPOCH:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if epoch == NO_EPOCH or higher == len(self._epochs):
            return NO_EPOCH, NO_OFFSET
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_at(self, offset: int) -> int:
        """The epoch of the leader that wrote the record at `offset`; NO_EPOCH below the first entry."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that begin at or after `end_offset`; returns whether there were any."""
        kept = bisect_left(self._starts, end_offset)
        if kept == len(self._starts):
            return False
        self._keep(slice(0, kept))
        return True

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drop epochs that end at or below `start_offset`; the epoch that contains it now begins there. Returns whether
        that changed anything."""
        below = bisect_right(self._starts, start_offset)
        if below == 0 or (below == 1 and self._starts[0] == start_offset):
            return False
        self._keep(slice(below - 1, None))
        self._starts[0] = start_offset
        return True

    def clear(self) -> None:
        self._keep(slice(0, 0))

    def check_invariants(self) -> None:
        for column in (self._epochs, self._starts):
            assert all(low < high for low, high in pairwise(column)), self
        assert self.latest == (self._epochs[-1] if self._epochs else NO_EPOCH), self

    def _keep(self, kept: slice) -> None:
        self._epochs = self._epochs[kept]
        self._starts = self._starts[kept]
        self.latest = self._epochs[-1] if self._epochs else NO_EPOCH


def agreed(checkpoint: Iterable[EpochEntry], runs: Sequence[EpochRun]) -> EpochCache:
    """The epochs of a log after a crash. `checkpoint` may be older or newer than the log; `runs` are all batches that
    were read, ascending. An entry stays unless a batch contradicts it. If no batch begins at its offset, that is no
    contradiction, because compaction may have removed that batch."""
    kept = [entry for entry in checkpoint if _fits(entry, runs)]
    epochs = {entry.epoch for entry in kept}
    learned = [EpochEntry(run.epoch, run.start_offset) for run in runs if run.epoch not in epochs]
    return EpochCache(sorted([*kept, *learned]))


def _fits(entry: EpochEntry, runs: Sequence[EpochRun]) -> bool:
    """Whether older epochs end at or before the start of this one, and it begins at or before its own batches, and
    before those of newer epochs."""
    epoch, start_offset = entry
    index = bisect_left(runs, epoch, key=lambda run: run.epoch)
    if index and runs[index - 1].end_offset > start_offset:
        return False
    if index == len(runs):
        return True
    following = runs[index].start_offset
    return following >= start_offset if runs[index].epoch == epoch else following > start_offset
