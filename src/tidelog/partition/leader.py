"""The leader's role: the followers' progress, the in-sync set, and the high watermark that follows from both."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.partition.progress import Progress, committed_offset


@dataclass(frozen=True, slots=True)
class Proposal:
    """An ISR requested from the controller, which has not answered yet."""

    isr: tuple[int, ...]
    broker_epochs: Mapping[int, int]
    """Of each member: the controller refuses one that has restarted since (KIP-903)."""
    partition_epoch: int
    """The version of the state that this changes: if the controller has a newer one, it refuses the proposal."""


@dataclass(slots=True)
class Leader:
    """One leadership. It lasts for one leader epoch: the next one starts with new progress."""

    epoch_start: int
    """The LEO at which this epoch began. All that earlier leaders committed is below it, but a new leader's high
    watermark may be behind that. So a replica joins the ISR only from here on (rule 3), and ListOffsets does not report
    a high watermark below it (rule 9)."""
    isr: tuple[int, ...]
    """As the controller committed it."""
    remote: dict[int, Progress]
    """Every assigned replica but this one, in sync or not."""
    adding: tuple[int, ...] | None = None
    """The replicas that a reassignment adds; None if there is no reassignment."""
    proposal: Proposal | None = None
    """At most one: a second one would be refused, because the first one changes the partition epoch."""
    elr: tuple[int, ...] = ()
    """The eligible leader replicas that the controller committed with this ISR (KIP-966)."""
    maximal_isr: frozenset[int] = field(init=False)
    """The members of `isr` and of `proposal` together: until the controller answers, either may be the ISR from which
    it elects the next leader, so a record is committed only if both have it (rule 1)."""

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

    def commit_isr(self, isr: Iterable[int], elr: Iterable[int] = ()) -> None:
        """The controller committed this ISR. That also ends a proposal in flight, which it accepted or overtook."""
        self.isr = tuple(isr)
        self.elr = tuple(elr)
        self.proposal = None
        self._widen()

    def withdraw_proposal(self) -> None:
        """The controller refused the proposal and did not change the ISR."""
        self.proposal = None
        self._widen()

    def high_watermark(self, current: int, end: int, now: int, lag_ms: int, eligible: Collection[int]) -> int:
        """Rule 1: it waits for the maximal ISR, and for caught-up replicas that may join it. If it did not wait for
        those, it could always be ahead of a follower that fetches from a busy leader, which then never joins."""
        counted = (
            progress.log_end_offset
            for replica, progress in self.remote.items()
            if replica in self.maximal_isr or (replica in eligible and progress.is_caught_up(end, now, lag_ms))
        )
        return committed_offset(current, end, counted)

    def may_join(self, replica: int, high_watermark: int, eligible: Collection[int]) -> bool:
        """Rule 3: its log reaches HW and `epoch_start`, its broker is eligible, and no proposal is in flight."""
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
