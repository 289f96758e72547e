"""What one partition answers to a fetch: records, where the logs part, the closest replica, or a refusal.

Data is passed on as slices of files. Consumers read committed records only; a follower reads the whole log.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.api.context import Context
from tidelog.api.records.leaders import MOVED, find, present_leader
from tidelog.api.records.sessions import CachedPartition, FetchedPartition, Session, UnknownPartition
from tidelog.effects import FileSlice
from tidelog.errors import ApiError, ErrorCode
from tidelog.log.integrity import Unsound
from tidelog.model import NO_EPOCH, NO_ID
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.partition.replication_throttle import NO_LIMIT
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.wire.message import Records
from tidelog.wire.messages.records.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, PartitionData

FOLLOWER_READS_SINCE = 11
RACK_AWARE = "RackAwareReplicaSelector"
CURRENT_LEADER_SINCE = 16
NOT_READ = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Errors before anything is read: the list of aborted transactions is then empty, otherwise null, as in Kafka."""


@dataclass(slots=True)
class Reader:
    """One fetch in progress: who fetches, the limits, and the partitions."""

    replica: int
    """The follower's broker ID, negative for a consumer; `broker_epoch` is the follower's, too."""
    broker_epoch: int
    deadline: int
    """Monotonic milliseconds: the answer may wait until then for `min_bytes`."""
    min_bytes: int
    max_bytes: int
    committed_only: bool
    rack: str
    session: Session | None
    partitions: dict[FetchedPartition, CachedPartition]
    """All that is fetched: with a session what it has, otherwise what the request names."""
    named: list[FetchedPartition]
    """What this request names. Only these have an offset that is new, so only these show progress."""

    @property
    def is_follower(self) -> bool:
        return self.replica >= 0

    def candidates(self) -> Iterable[FetchedPartition]:
        """What can have changed: for a session what is dirty or was requested, otherwise everything. What was answered
        last comes last, so that a partition with many records does not starve the others."""
        return dict.fromkeys((*self.session.dirty, *self.named)) if self.session else self.named


@dataclass(slots=True)
class Outcome:
    """The answers so far. `urgent`: they must not wait for more bytes. `short`: partitions with records left to read.
    `throttled`: the part of `size` that is of throttled partitions."""

    answers: dict[FetchedPartition, PartitionData] = field(default_factory=dict)
    short: set[FetchedPartition] = field(default_factory=set)
    size: int = 0
    throttled: int = 0
    urgent: bool = False


def read(context: Context, reader: Reader, cached: CachedPartition, outcome: Outcome) -> PartitionData:
    if isinstance(cached.name, UnknownPartition):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    access = context.access  # at each read: the rules can change while a fetch waits or a session lasts
    if access is not None and not access.allows(AclOperation.READ, ResourceType.TOPIC, cached.name.topic, "Fetch"):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    partition = find(context.broker, *cached.name)
    if cached.topic_id not in (NO_ID, partition.log.topic_id):
        raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
    if reader.session is not None:
        partition.sessions.setdefault(reader.session.number, reader.session.dirty)
    partition.check_epoch(cached.leader_epoch)
    if reader.is_follower:
        return _read_as_follower(context, partition, reader, cached, outcome)
    if context.version < FOLLOWER_READS_SINCE:
        partition.leading()
    preferred = closest_replica(partition, reader.rack, cached.offset, context)
    if preferred is not None:
        outcome.urgent = True
        return _data(partition, b"", preferred=preferred, committed_only=reader.committed_only)
    if cached.last_epoch != NO_EPOCH and (diverging := _divergence(partition, cached, outcome)) is not None:
        return diverging
    limit = readable_end(partition, committed_only=reader.committed_only)
    records = _take(context, partition, reader, cached, outcome, limit)
    answer = _data(partition, records, committed_only=reader.committed_only)
    if reader.committed_only and isinstance(records, FileSlice):
        answer.aborted_transactions = aborted(partition, cached.offset, records, limit)
    return answer


def readable_end(partition: Partition, *, committed_only: bool) -> int:
    """The offset below which consumers may read: LSO for read_committed, otherwise HW."""
    return partition.last_stable_offset if committed_only else partition.high_watermark


def check_follower(partition: Partition, replica: int) -> None:
    """Only assigned replicas may follow, and only the leader is followed."""
    if replica not in partition.leading().remote:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _read_as_follower(
    context: Context, partition: Partition, reader: Reader, cached: CachedPartition, outcome: Outcome
) -> PartitionData:
    """A follower also learns where its log diverges from this one. The high watermark is sent at once only if consumers
    read from followers (KIP-392): that costs one more round trip with each follower for each commit."""
    check_follower(partition, reader.replica)
    diverging = _divergence(partition, cached, outcome)
    if diverging is not None:
        return diverging
    is_behind = cached.sent_high_watermark < partition.high_watermark
    if is_behind and (cached.sent_high_watermark < 0 or context.broker.config.replica_selector_class):
        outcome.urgent = True
    if cached.sent_log_start < partition.log.log_start_offset:
        outcome.urgent = True
    return _data(partition, _pace(context, partition, reader, cached, outcome))


def _pace(context: Context, partition: Partition, reader: Reader, cached: CachedPartition, outcome: Outcome) -> Records:
    """What the throttle allows of a partition that it covers (KIP-73); a replica in sync gets all."""
    throttle, end = context.broker.throttles.leader, partition.log.log_end_offset
    if not throttle.covers(partition):
        return _take(context, partition, reader, cached, outcome, end)
    room = NO_LIMIT
    if reader.replica not in partition.leading().isr and cached.offset < end:
        room = throttle.room(context.now.mono, outcome.throttled)
        if not room:
            throttle.hold(partition.name)
            return b""
    before = outcome.size
    records = _take(context, partition, reader, cached, outcome, end, room)
    outcome.throttled += outcome.size - before
    return records


def _divergence(partition: Partition, cached: CachedPartition, outcome: Outcome) -> PartitionData | None:
    """The answer to a fetcher whose log diverges from this one: where it does, and no records (KIP-595)."""
    found = partition.diverging(cached.last_epoch, cached.offset)
    if found is None:
        return None
    outcome.urgent = True
    answer = _data(partition, b"", committed_only=False)
    answer.diverging_epoch = EpochEndOffset(epoch=found.epoch, end_offset=found.end_offset)
    return answer


def _take(
    context: Context,
    partition: Partition,
    reader: Reader,
    cached: CachedPartition,
    outcome: Outcome,
    limit: int,
    room: int = NO_LIMIT,
) -> Records:
    """Records within `room` and what is left of the request's bytes; the first batch of an answer whatever its size."""
    left = min(cached.max_bytes, reader.max_bytes - outcome.size, room)
    first = outcome.size == 0
    if left <= 0 and not first:
        outcome.short.add(cached.name)
        return b""
    piece = _slice(context, partition, cached, max(left, 0), limit, first=first)
    if piece is None:
        if cached.offset < limit:
            outcome.short.add(cached.name)
        return b""
    outcome.size += piece.length
    if reader.is_follower:
        partition.traffic.replicated_out += piece.length
    else:
        partition.traffic.bytes_out += piece.length
    return piece


def _data(
    partition: Partition, records: Records, *, preferred: int = -1, committed_only: bool = False
) -> PartitionData:
    return PartitionData(
        partition_index=partition.name.partition,
        error_code=0,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=[] if committed_only else None,
        preferred_read_replica=preferred,
        records=records,
    )


def _slice(
    context: Context, partition: Partition, cached: CachedPartition, max_bytes: int, limit: int, *, first: bool
) -> FileSlice | None:
    """What the fetcher reads; None if there is nothing, or while the records are checked for disk corruption."""
    try:
        return partition.read(cached.offset, max_bytes, limit, at_least_one=first)
    except Unsound as unsound:
        code = context.broker.examine(partition, unsound)
        if code:
            raise ApiError(code) from unsound
        return None


def aborted(partition: Partition, offset: int, piece: FileSlice, limit: int) -> list[AbortedTransaction]:
    """The aborted transactions in what is read, in the order of the transaction index."""
    return [
        AbortedTransaction(producer_id=found.producer_id, first_offset=found.first_offset)
        for found in partition.log.aborted(offset, piece, limit)
    ]


def closest_replica(partition: Partition, rack: str, offset: int, context: Context) -> int | None:
    """The in-sync replica in the consumer's rack that has `offset`; None if that is the leader or there is none
    (KIP-392)."""
    role = partition.role
    selector = context.broker.config.replica_selector_class
    if not rack or not isinstance(role, Leader) or not selector or not selector.endswith(RACK_AWARE):
        return None
    brokers = context.broker.image.brokers
    own = brokers.get(partition.broker_id)
    if own is not None and own.rack == rack:
        return None
    near = [
        (progress.log_end_offset, -broker)
        for broker, progress in role.remote.items()
        if broker in role.isr
        and broker in brokers
        and brokers[broker].rack == rack
        and progress.log_start_offset <= offset <= progress.log_end_offset
    ]
    return -max(near)[1] if near else None


def refusal(context: Context, cached: CachedPartition, code: ErrorCode) -> PartitionData:
    answer = PartitionData(
        partition_index=cached.name.partition,
        error_code=code,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=[] if code in NOT_READ else None,
        records=b"",
    )
    if isinstance(cached.name, UnknownPartition):
        return answer
    if code == ErrorCode.OFFSET_OUT_OF_RANGE and context.listener == context.broker.inter_broker_listener:
        partition = find(context.broker, *cached.name)
        answer.log_start_offset = partition.log.log_start_offset
    if code in MOVED and context.version >= CURRENT_LEADER_SINCE:
        leader, epoch = present_leader(context.broker, *cached.name)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return answer
