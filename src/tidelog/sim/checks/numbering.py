"""I26 (S): for each (partition, producer, epoch) sequences are contiguous; a retry gets the first answer; the last
sequence and epoch that a log knows equal a replay of it, and so those of the other replicas at the same LEO. The window
of five batches is known only as far as the log was replayed since the snapshot: the known part must be its end.

I26 (Q): a batch of an idempotent producer is in the log only once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.log.producers import Producer
from tidelog.sim.checks.ghosts import Ghost
from tidelog.sim.checks.replica import Batch, Replica
from tidelog.wire.records import MAX_SEQUENCE, NO_SEQUENCE

WINDOW = 5


@dataclass(slots=True)
class Numbers:
    """One producer by a replay of the log: its epoch and its last batches as (first, last sequence, base, end).

    `is_whole`: the epoch began within the replay.
    """

    epoch: int
    last: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_whole: bool = False

    @property
    def last_sequence(self) -> int:
        return self.last[-1][1] if self.last else NO_SEQUENCE

    @property
    def end(self) -> int:
        """The end offset of its last numbered batch."""
        return self.last[-1][3] if self.last else MAX_SEQUENCE

    def take(self, batch: Batch) -> None:
        _, epoch, first, last = batch.producer
        if epoch != self.epoch:
            self.epoch = epoch
            self.is_whole = True
            self.last.clear()
        if first != NO_SEQUENCE:
            self.last.append((first, last, batch.base, batch.end))
            del self.last[:-WINDOW]


class Numbering:
    """The producers of one replica. `whole`: the replay began with the partition's first record."""

    def __init__(self) -> None:
        self.producers: dict[int, Numbers] = {}
        self.whole = True

    def __repr__(self) -> str:
        return f"Numbering({len(self.producers)} producers)"

    def rebuild(self, replica: Replica, *, compacted: bool = False) -> None:
        """Replay a log that was truncated, or that is read for the first time."""
        self.producers.clear()
        self.whole = replica.first_offset == 0 and not compacted
        for batch in replica.log.batches:
            self._take(batch)

    def take(self, replica: Replica, new: Iterable[Batch], *, compacted: bool = False) -> None:
        """Replay appended batches; some may be missing where the log was `compacted`.

        Below its log's start a follower may have other batches of a producer than its leader had: they are deleted, and
        nobody compares them (`Chain`).
        """
        for batch in new:
            producer_id, epoch, first, _ = batch.producer
            known = self.producers.get(producer_id)
            if producer_id >= 0 and known is not None and first != NO_SEQUENCE:
                due = (known.last_sequence + 1) & MAX_SEQUENCE if epoch == known.epoch else 0
                is_deleted = follows(replica) and known.end <= replica.deleted_to
                assert is_deleted or epoch >= known.epoch, (
                    f"I26: {replica!r} took {batch} of an older producer epoch than {known}"
                )
                if (compacted or is_deleted) and first != due:
                    known.last.clear()
                    self.whole, due = False, first
                assert first == due, f"I26: {replica!r} took {batch} with {batch.producer} where {due} was due: {known}"
            self._take(batch)

    def _take(self, batch: Batch) -> None:
        producer_id, epoch, _, _ = batch.producer
        if producer_id >= 0:
            self.producers.setdefault(producer_id, Numbers(epoch)).take(batch)

    def compare(self, replica: Replica, only: set[int] | None = None) -> None:
        """Compare with what the log itself knows, for `only` these producers or all."""
        known = replica.partition.log.producers
        for producer_id in self.producers if only is None else only:
            self._compare(replica, known.get(producer_id), producer_id)
        if only is None and self.whole:
            more = {producer.producer_id for producer in known.values()} - set(self.producers)
            assert not more, f"I26: {replica!r} knows producers {sorted(more)}, without a record of theirs"

    def _compare(self, replica: Replica, known: Producer | None, producer_id: int) -> None:
        numbers = self.producers[producer_id]
        assert known is not None, f"I26: {replica!r} has forgotten producer {producer_id}: {numbers}"
        # An old producer keeps its epoch, so perhaps only a marker of it was replayed.
        is_defined = bool(numbers.last) or numbers.is_whole or self.whole
        right = known.epoch == numbers.epoch and (not is_defined or known.last_sequence == numbers.last_sequence)
        assert right, f"I26: {replica!r} knows {known}, by its log it is {numbers}"
        numbered = (
            batch for batch in known.batches if batch.base_sequence != NO_SEQUENCE
        )  # coordinators write markers without sequences
        window = [(b.base_sequence, b.last_sequence, b.first_offset, b.last_offset + 1) for b in numbered]
        replayed = min(len(window), len(numbers.last)) if not self.whole else len(window)
        assert window[len(window) - replayed :] == numbers.last[len(numbers.last) - replayed :], (
            f"I26: {replica!r} knows {window} of producer {producer_id}, by its log it is {numbers}"
        )


def follows(replica: Replica) -> bool:
    return replica.state is not None and not replica.state.leading


def check_answer(ghost: Ghost, producer: tuple[int, int, int, int], base: int, start: int) -> None:
    """Check that a batch acknowledged before has the same offset again, unless that offset was deleted since.

    A log that started over at `start`, its first offset, does not know the batches before and accepts the batch as new.
    """
    producer_id, epoch, first, _ = producer
    if producer_id >= 0:
        earlier = ghost.answered.setdefault((producer_id, epoch, first), base)
        assert earlier == base or earlier < start, (
            f"I26: {producer} of {ghost.name} was answered with {earlier}, and now with {base}"
        )


def check_unique(ghost: Ghost, start: int) -> None:
    """Check that no committed batch is in the log twice. `start` is the first offset that no replica has deleted."""
    seen: dict[tuple[int, int, int], Batch] = {}
    for batch in ghost.committed.batches:
        producer_id, epoch, first, _ = batch.producer
        if producer_id >= 0 and first != NO_SEQUENCE:
            other = seen.setdefault((producer_id, epoch, first), batch)
            assert other is batch or other.base < start, (
                f"I26: {ghost.name} holds the same batch as {other} and as {batch}"
            )
