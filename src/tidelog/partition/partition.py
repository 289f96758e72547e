"""One replica of one partition: its log, its epochs and its role (rules 1 to 7 and 9).

Invariants: log start ≤ HW ≤ LEO (I1); within one leader epoch HW never decreases (I6); a role belongs to exactly one
leader epoch, so only `leading` checks whether this replica leads in the present epoch.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from tidelog.config.topic import TopicConfig
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, ErrorCode
from tidelog.log import integrity
from tidelog.log.log import Appended, Log
from tidelog.log.rules import AppendRules
from tidelog.model import NO_EPOCH, NO_LEADER, Time, TopicPartition
from tidelog.partition.follower import Follower
from tidelog.partition.leader import Leader, Proposal
from tidelog.partition.progress import LONG_AGO, Progress
from tidelog.partition.truncation import KIP_320, EpochEnd, Generation, Truncation, diverging, epoch_end
from tidelog.ports import Buffer

ACKS_ALL = -1
NEVER = 2**63 - 1
"""flush.messages and flush.ms if no flush is configured."""


class Assignment(NamedTuple):
    """A partition's state in LeaderAndIsr; applied only if (leader_epoch, partition_epoch) is higher (rule 7)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...] | None = None
    elr: tuple[int, ...] = ()


class DirtyPartitions(Protocol):
    """The partitions of a fetch session that changed since its last response: an insertion-ordered set."""

    def __setitem__(self, name: TopicPartition, value: None) -> None: ...


class Traffic:
    """Records and bytes since this broker opened the replica: from and to clients, from and to other replicas."""

    __slots__ = ("bytes_in", "bytes_out", "records_in", "replicated_in", "replicated_out")

    def __init__(self) -> None:
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replicated_in = 0
        self.replicated_out = 0


class Partition:
    """A replica held by this broker."""

    __slots__ = (
        "broker_id", "changed", "config", "epoch", "failed", "flush_pending", "full", "generation", "high_watermark",
        "lag_ms", "log", "name", "partition_epoch", "replicas", "role", "sessions", "traffic",
    )  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        broker_id: int,
        log: Log,
        config: TopicConfig,
        *,
        high_watermark: int,
        lag_ms: int,
        changed: dict[TopicPartition, bool],
        generation: Generation = KIP_320,
    ) -> None:
        self.name = name
        self.broker_id = broker_id
        self.log = log
        self.config = config
        self.lag_ms = lag_ms
        self.changed = changed
        """Shared by all replicas of the broker: the dirty partitions, and whether followers must be notified at once.
        The node empties it."""
        self.generation = generation
        """How a follower truncates: production uses KIP-320 only."""
        self.epoch = NO_EPOCH
        """The leader epoch. `partition_epoch` ascends with every change of the partition's state."""
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.role: Leader | Follower | None = None
        # After a crash the checkpoint may be outside of the log.
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.failed = False
        """The log directory failed. It stays so until a restart."""
        self.flush_pending = False
        """flush.messages or flush.ms requires a sync: until it is done, the unsynced records do not count (rule 2)."""
        self.full = False
        """The log directory has no space: nothing is appended, everything is served."""
        self.traffic = Traffic()
        self.sessions: dict[int, DirtyPartitions] = {}
        """Fetch sessions that read this partition: session id → its set of dirty partitions."""

    def __repr__(self) -> str:
        role = type(self.role).__name__ if self.role else "idle"
        return f"<{self.name} {role} epoch={self.epoch} HW={self.high_watermark} LEO={self.log.log_end_offset}>"

    @property
    def leader_id(self) -> int:
        """The leader as this replica knows it, NO_LEADER if there is none."""
        if type(self.role) is Follower:
            return self.role.leader
        return NO_LEADER if self.role is None else self.broker_id

    # Roles.

    def assign(self, assignment: Assignment, now: Time) -> bool:
        """Apply the controller's state, unless it is not newer than the present one; returns whether it was applied."""
        if not self.is_newer(assignment):
            return False
        new_epoch = assignment.leader_epoch > self.epoch
        self.epoch = assignment.leader_epoch
        self.partition_epoch = assignment.partition_epoch
        self.replicas = assignment.replicas
        self.mark_dirty()
        if assignment.leader != self.broker_id:
            self._follow(assignment.leader, new_epoch=new_epoch)
        elif new_epoch or not isinstance(self.role, Leader):
            self._lead(assignment, now)
        else:
            self._keep_leading(self.role, assignment, now)
        return True

    def is_newer(self, assignment: Assignment) -> bool:
        """Assignments may arrive late, and out of order."""
        return (assignment.leader_epoch, assignment.partition_epoch) > (self.epoch, self.partition_epoch)

    def _lead(self, assignment: Assignment, now: Time) -> None:
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)
        remote = {
            replica: Progress(now.mono if replica in assignment.isr else LONG_AGO)
            for replica in assignment.replicas
            if replica != self.broker_id
        }
        self.role = Leader(self.log.log_end_offset, assignment.isr, remote, assignment.adding, elr=assignment.elr)

    def _keep_leading(self, role: Leader, assignment: Assignment, now: Time) -> None:
        for replica in assignment.replicas:
            if replica != self.broker_id and replica not in role.remote:
                role.remote[replica] = Progress(now.mono if replica in assignment.isr else LONG_AGO)
        for replica in set(role.remote).difference(assignment.replicas):
            del role.remote[replica]
        role.adding = assignment.adding
        role.commit_isr(assignment.isr, assignment.elr)

    def _follow(self, leader: int, *, new_epoch: bool) -> None:
        if isinstance(self.role, Follower) and not new_epoch:
            self.role.leader = leader
            return
        offset = self.generation.truncation_on_following(self.high_watermark)
        if offset is not None and leader != NO_LEADER:
            self.truncate_to(offset)
        self.role = Follower(leader, needs_epoch_end=self.generation.requests_epoch_end(self.log.epochs.latest))

    def fail(self) -> None:
        """The log directory failed: no role until a restart. A leader that no follower can fetch from would otherwise
        remove all of them from its ISR, and no other replica could take over."""
        self.failed = True
        self.role = None
        self.mark_dirty()

    def leading(self) -> Leader:
        """The leader's role; otherwise raises NOT_LEADER_OR_FOLLOWER."""
        role = self.role
        if type(role) is Leader:
            return role
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR if self.failed else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_epoch(self, epoch: int) -> None:
        """Rule 7: the sender's leader epoch must be this replica's (-1: it has none)."""
        if epoch not in (NO_EPOCH, self.epoch):
            code = ErrorCode.FENCED_LEADER_EPOCH if epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise ApiError(code)

    # Leader: append, and what it commits.

    @property
    def min_in_sync(self) -> int:
        least: int = self.config.min_insync_replicas
        return least if least == 1 else min(least, max(1, len(self.replicas)))

    @property
    def durable_end(self) -> int:
        """This replica's contribution to HW: its LEO, or only the durable part while a flush is due (rule 2)."""
        return self.log.recovery_point if self.flush_pending else self.log.log_end_offset

    def append(
        self,
        records: Buffer,
        acks: int,
        now: Time,
        *,
        from_client: bool = True,
        transaction_version: int = 0,
        inspected: AppendRules | None = None,
    ) -> Appended:
        """Append as leader (rule 4). The caller calls `advance` once for all of its appends. Raises LargeBatch as
        `Log.append_as_leader`."""
        role = self.leading()
        if self.full:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log folder of {self.name} is full")
        if acks == ACKS_ALL and self.lacks_replicas(role):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        old_end = self.log.log_end_offset
        appended = self.log.append_as_leader(
            records,
            self.epoch,
            now,
            from_client=from_client,
            transaction_version=transaction_version,
            inspected=inspected,
        )
        if not appended.duplicate:
            self.traffic.records_in += appended.last_offset + 1 - appended.first_offset
            self.traffic.bytes_in += len(records)
            for progress in role.remote.values():
                progress.leader_appended(old_end, now.mono)
            self.after_append(now)
        return appended

    def advance(self, now: Time, eligible: Collection[int]) -> bool:
        """Apply rule 1; returns whether the high watermark moved."""
        role = self.role
        if type(role) is not Leader or self.high_watermark == self.log.log_end_offset:
            return False
        if self.is_under_min_isr(role):
            return False
        end = self.durable_end
        new = end
        if role.remote:
            new = role.high_watermark(self.high_watermark, end, now.mono, self.lag_ms, eligible)
        if new <= self.high_watermark:
            return False
        self.high_watermark = new
        self.mark_dirty(for_followers=False)
        return True

    def is_under_min_isr(self, role: Leader) -> bool:
        """Whether the high watermark must not move, because too few replicas are in sync (KIP-966)."""
        return self.lacks_replicas(role)

    def lacks_replicas(self, role: Leader) -> bool:
        """Whether the ISR is smaller than min.insync.replicas. The controller may know another value than this broker
        by now. If it keeps eligible leader replicas, the ISR is too small for it: it may elect one of them, which then
        must have everything committed."""
        return len(role.isr) < self.min_in_sync or bool(role.elr)

    def after_append(self, now: Time) -> None:
        """Records were appended: request a flush if one is due, and notify the readers."""
        if self._flush_due(now):
            self.flush_pending = True
        self.mark_dirty()

    def _flush_due(self, now: Time) -> bool:
        config = self.config
        return (config.flush_messages < NEVER or config.flush_ms < NEVER) and self.log.flush_due(now)

    def flushed(self, end: int, now: Time) -> None:
        """The log up to `end` is durable; later appends may be due already."""
        self.log.mark_synced(end)
        self.flush_pending = self._flush_due(now)
        self.mark_dirty()

    def mark_dirty(self, *, for_followers: bool = True) -> None:
        """`for_followers=False` for a new high watermark alone, which followers get with their next response."""
        self.changed[self.name] = for_followers or self.changed.get(self.name, False)
        for dirty in self.sessions.values():
            dirty[self.name] = None

    # Leader: followers.

    def follower_fetched(self, replica: int, offset: int, log_start: int, broker_epoch: int, now: Time) -> Progress:
        """Record the progress of a follower; the caller then calls `advance` and `propose_expansion`."""
        role = self.leading()
        progress = role.remote.get(replica)
        if progress is None or NO_EPOCH < broker_epoch < progress.broker_epoch:  # or sent before its broker restarted
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if log_start != progress.log_start_offset:
            self.changed.setdefault(self.name, False)
        progress.fetched(offset, log_start, self.log.log_end_offset, broker_epoch, now.mono)
        return progress

    def diverging(self, last_epoch: int, offset: int) -> EpochEnd | None:
        """Where a log with `last_epoch` below `offset` diverges from this one; None if it does not (KIP-595)."""
        return diverging(self.log, last_epoch, offset)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Rule 6."""
        return epoch_end(self.log, epoch)

    def propose_expansion(self, replica: int, own_epoch: int, eligible: Collection[int]) -> Proposal | None:
        """The ISR with this replica added, if rule 3 allows it."""
        role = self.role
        if type(role) is not Leader or own_epoch == NO_EPOCH:
            return None
        if not role.may_join(replica, self.high_watermark, eligible):
            return None
        return role.propose((*role.isr, replica), self.partition_epoch, self.broker_id, own_epoch)

    def propose_rejoins(self, now: Time, own_epoch: int, eligible: Collection[int]) -> Proposal | None:
        """The ISR with all replicas that rule 3 allows. A caught-up follower of an idle partition has nothing to
        fetch, so the leader must check again when the reason for its exclusion is gone: an election, a change in
        flight, a restart. A replica that has not fetched lately is left out: it may be dead, and would be removed
        again at once."""
        role = self.role
        if type(role) is not Leader or own_epoch == NO_EPOCH or len(role.isr) == len(self.replicas):
            return None
        ready = [
            replica
            for replica, progress in role.remote.items()
            if role.may_join(replica, self.high_watermark, eligible)
            and progress.is_caught_up(self.log.log_end_offset, now.mono, self.lag_ms)
        ]
        return role.propose((*role.isr, *ready), self.partition_epoch, self.broker_id, own_epoch) if ready else None

    def propose_shrink(self, now: Time, own_epoch: int) -> Proposal | None:
        """The ISR without the replicas that fell behind; None if there are none or a change is in flight."""
        role = self.role
        if type(role) is not Leader or own_epoch == NO_EPOCH or role.proposal is not None or len(role.isr) <= 1:
            return None
        late = role.out_of_sync_replicas(self.log.log_end_offset, now.mono, self.lag_ms)
        if not late:
            return None
        rest = [member for member in role.isr if member not in late]
        return role.propose(rest, self.partition_epoch, self.broker_id, own_epoch)

    def proposal_accepted(
        self, proposal: Proposal, isr: Sequence[int], partition_epoch: int, elr: Sequence[int] = ()
    ) -> bool:
        """The controller committed the ISR; returns whether this was still the change in flight."""
        role = self.role
        if type(role) is not Leader or role.proposal is not proposal or partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        role.commit_isr(isr, elr)
        return True

    def proposal_refused(self, proposal: Proposal) -> None:
        role = self.role
        if type(role) is Leader and role.proposal is proposal:
            role.withdraw_proposal()

    # Reading.

    def read(self, offset: int, max_bytes: int, limit: int, *, at_least_one: bool) -> FileSlice | None:
        """Raises ApiError for a replica without a role, because it may not be a replica any more. May raise Unsound."""
        if self.role is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR if self.failed else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return integrity.read(self.log, offset, max_bytes, limit, at_least_one=at_least_one)

    @property
    def last_stable_offset(self) -> int:
        """The first offset of a transaction that is open, or whose marker is not committed; otherwise HW. Never below
        the log's start, which DeleteRecords may have moved into the transaction."""
        return max(self.log.producers.last_stable_offset(self.high_watermark), self.log.log_start_offset)

    # Follower.

    def append_from_leader(self, records: Buffer, high_watermark: int, log_start: int, now: Time) -> bool:
        """Append the leader's records and apply its watermarks (rule 2); returns whether anything changed for
        readers."""
        appended = self.log.append_as_follower(records, now) if len(records) else None
        if log_start > self.log.log_start_offset:
            self.log.advance_start(log_start)
        new = max(min(self.log.log_end_offset, high_watermark), self.log.log_start_offset)
        moved = new != self.high_watermark
        self.high_watermark = new
        if appended is not None:
            self.traffic.replicated_in += len(records)
            self.after_append(now)
        elif moved:
            self.mark_dirty()
        return appended is not None or moved

    def reconcile(self, leader: EpochEnd) -> Truncation:
        """Truncate this log according to the leader's response (rule 5)."""
        truncation = self.generation.truncation(
            leader,
            self.epoch_end(leader.epoch),
            end=self.log.log_end_offset,
            start=self.log.log_start_offset,
            high_watermark=self.high_watermark,
        )
        self.truncate_to(truncation.offset)
        return truncation

    def truncate_to(self, offset: int) -> bool:
        done = self.log.truncate_to(offset)
        self.high_watermark = min(self.high_watermark, self.log.log_end_offset)
        return done

    def start_over_at(self, offset: int) -> None:
        """The leader's log begins after this one, or diverges below its start: start again, empty, at its start."""
        self.log.truncate_fully_and_start_at(offset)
        self.high_watermark = offset

    # Leader: DeleteRecords.

    def delete_records_before(self, offset: int) -> int:
        """DeleteRecords on the leader; returns the new log start (-1 means the high watermark)."""
        self.leading()
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.log_start_offset:
            self.log.advance_start(target)
            self.mark_dirty()
        return target

    def low_watermark(self, alive: Collection[int]) -> int:
        """The highest log start that every live replica has reached, as far as the leader knows."""
        remote = self.leading().remote.items()
        starts = [progress.log_start_offset for replica, progress in remote if replica in alive]
        return min([self.log.log_start_offset, *starts])

    def check_invariants(self) -> None:
        """Assert the invariants of every step (I1, I14)."""
        log = self.log
        assert log.log_start_offset <= self.high_watermark <= log.log_end_offset, repr(self)
        assert log.recovery_point <= log.log_end_offset, repr(self)
        if type(self.role) is Leader:
            assert self.broker_id in self.role.isr, repr(self)
            assert set(self.role.isr) <= set(self.replicas), repr(self)
