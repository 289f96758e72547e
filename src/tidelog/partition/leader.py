"""The leader's role: the others' progress, the in-sync set, and the high watermark that follows from both."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.partition.progress import Progress, committed_offset


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR that was asked of the controller and is not answered yet, with each member's broker epoch."""

    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int]
    partition_epoch: int


@dataclass(slots=True)
class Leader:
    """Fields of one leadership.

    `epoch_start` is the LEO at which this epoch began: a replica joins the ISR only from there on (rule 3), and a
    high watermark below it is not yet told to ListOffsets (rule 9).
    `isr` is the committed one; `maximal_isr` also counts who was proposed to join (rule 1). `adding` are the replicas
    that a reassignment brings, None where none is under way.
    """

    epoch_start: int
    isr: tuple[int, ...]
    remote: dict[int, Progress]
    adding: tuple[int, ...] | None = None
    proposal: Proposal | None = None
    maximal_isr: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self._widen()

    def _widen(self) -> None:
        self.maximal_isr = frozenset(self.isr).union(self.proposal.isr if self.proposal else ())

    def propose(self, isr: Iterable[int], partition_epoch: int, own: int, own_epoch: int) -> Proposal:
        members = tuple(isr)
        epochs = {member: own_epoch if member == own else self.remote[member].broker_epoch for member in members}
        self.proposal = Proposal(members, epochs, partition_epoch)
        self._widen()
        return self.proposal

    def commit_isr(self, isr: Iterable[int]) -> None:
        """The controller's word on the ISR: whatever was in flight is over."""
        self.isr = tuple(isr)
        self.proposal = None
        self._widen()

    def withdraw_proposal(self) -> None:
        """The controller refused the proposal for good: back to the committed ISR."""
        self.proposal = None
        self._widen()

    def high_watermark(self, current: int, end: int, now: int, lag_ms: int, eligible: Collection[int]) -> int:
        """Rule 1: who counts is the maximal ISR, and whoever is about to join it."""
        counted = (
            progress.log_end_offset
            for replica, progress in self.remote.items()
            if replica in self.maximal_isr or (replica in eligible and progress.is_caught_up(end, now, lag_ms))
        )
        return committed_offset(current, end, counted)

    def may_join(self, replica: int, high_watermark: int, eligible: Collection[int]) -> bool:
        """Rule 3: at HW and at this epoch's first offset, alive, and no change in flight."""
        end = self.remote[replica].log_end_offset
        return (
            self.proposal is None
            and replica not in self.isr
            and end >= high_watermark
            and end >= self.epoch_start
            and replica in eligible
        )

    def out_of_sync_replicas(self, end: int, now: int, lag_ms: int) -> set[int]:
        """ISR members that have not been caught up for longer than the lag time."""
        return {
            replica
            for replica in self.isr
            if replica in self.remote and not self.remote[replica].is_caught_up(end, now, lag_ms)
        }
