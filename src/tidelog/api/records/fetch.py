"""Fetch (1): records for consumers and for followers (KIP-74, 227, 320, 392, 595, 951).

An answer is given at once where there is enough, an error, or something a follower must know; otherwise the request
waits for its partitions to become dirty, without polling. Data is passed on as slices of files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.api.context import Context
from tidelog.api.records import answers, closest
from tidelog.api.records.allowance import allowed_bytes
from tidelog.api.records.asking import asked_partitions, session_of
from tidelog.api.records.leaders import MOVED, endpoints, find
from tidelog.api.records.sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    Session,
    UnknownPartition,
    Wanted,
)
from tidelog.effects import Deferred, FileSlice, Readable, Signal
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import NO_EPOCH, NO_ID, TopicPartition
from tidelog.partition.partition import Partition
from tidelog.partition.throttle import NO_LIMIT
from tidelog.wire.message import Records
from tidelog.wire.messages.records.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

CONSUMER = -1
READ_COMMITTED = 1
FOLLOWER_READS_SINCE = 11
EXAMINED_WITHIN_MS = 5_000
"""How long a fetch may wait for old records to be read and found sound, whatever it allows for new ones to come."""


@dataclass(slots=True)
class Reader:
    """One fetch under way: who reads, within which bounds, and what."""

    replica: int
    broker_epoch: int
    deadline: int
    min_bytes: int
    max_bytes: int
    committed_only: bool
    rack: str
    session: Session | None
    wanted: dict[FetchedPartition, Wanted]
    fresh: dict[FetchedPartition, None]

    @property
    def is_follower(self) -> bool:
        return self.replica >= 0

    def candidates(self) -> Iterable[FetchedPartition]:
        """What can have changed: for a session what is dirty or was asked, otherwise everything. What was answered
        last comes last, so that a partition with many records does not starve the others."""
        return {**self.session.dirty, **self.fresh} if self.session else self.fresh


@dataclass(slots=True)
class Outcome:
    """The answers so far; `urgent` when they must not wait for more bytes, `short` names those with records left.
    `throttled`: the bytes of throttled partitions among `size`."""

    answers: dict[FetchedPartition, PartitionData] = field(default_factory=dict)
    short: set[FetchedPartition] = field(default_factory=set)
    size: int = 0
    throttled: int = 0
    urgent: bool = False


def handle(request: FetchRequest, context: Context) -> FetchResponse | Deferred:
    replica = request.replica_state.replica_id if context.version >= 15 else request.replica_id
    if replica >= 0 and context.listener != context.broker.inter_broker_listener:
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        reader = _reader(request, replica, context)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    if reader.is_follower:
        _record_progress(reader, context)
    return _answer_or_wait(context, reader)


def _reader(request: FetchRequest, replica: int, context: Context) -> Reader:
    asked = list(asked_partitions(request, context))
    fresh = dict.fromkeys(wanted.name for wanted in asked)
    session, wanted = session_of(request, replica, asked, context)
    return Reader(
        replica=replica,
        broker_epoch=request.replica_state.replica_epoch,
        deadline=context.now.mono + request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, allowed_bytes(context)),
        committed_only=request.isolation_level == READ_COMMITTED,
        rack=request.rack_id,
        session=session,
        wanted=wanted,
        fresh=fresh,
    )


def _record_progress(reader: Reader, context: Context) -> None:
    """Rules 1 and 3: where the follower is moves the high watermark and may bring it back into the ISR."""
    broker, session = context.broker, reader.session
    names = reader.fresh
    if session is not None and session.broker_epoch != reader.broker_epoch:
        # Registered anew: all that it follows is vouched for by the new epoch.
        session.broker_epoch = reader.broker_epoch
        names = dict.fromkeys(session.wanted)
    for name in names:
        if isinstance(name, UnknownPartition):
            continue
        wanted = reader.wanted[name]
        partition = broker.replicas.get(*name)
        if partition is None:
            continue
        try:
            partition.check_epoch(wanted.leader_epoch)
            if partition.diverging(wanted.last_epoch, wanted.offset) is not None:
                continue
            partition.follower_fetched(
                reader.replica, wanted.offset, wanted.log_start, reader.broker_epoch, context.now
            )
        except ApiError:
            continue
        partition.advance(context.now, broker.eligible)
        proposal = partition.expansion(reader.replica, broker.broker_epoch, broker.eligible)
        if proposal is not None:
            broker.propose(name, proposal)


def _answer_or_wait(context: Context, reader: Reader) -> FetchResponse | Deferred:
    outcome = _collect(context, reader)
    # An error is told at once: when it is over, nobody would know that the follower's progress was not recorded.
    examining = outcome.short and not outcome.size and not any(each.error_code for each in outcome.answers.values())
    deadline = reader.deadline + EXAMINED_WITHIN_MS if examining else reader.deadline
    enough = outcome.size >= reader.min_bytes or outcome.urgent or not reader.wanted
    if (enough and not examining) or context.now.mono >= deadline:
        return _response(context, reader, outcome)
    if reader.session is not None:
        patient = reader.is_follower and not context.broker.config.replica_selector_class
        return Deferred((Signal(reader.session.dirty_key(patient=patient)),), deadline, _answer_or_wait, (reader,))
    conditions = [Readable(name) for name in reader.wanted if isinstance(name, TopicPartition)]
    return Deferred(conditions, deadline, _answer_or_wait, (reader,))


def _collect(context: Context, reader: Reader) -> Outcome:
    outcome = Outcome()
    for name in reader.candidates():
        wanted = reader.wanted.get(name)
        if wanted is None:
            continue
        try:
            answer = _read(context, reader, wanted, outcome)
        except ApiError as error:
            answer = answers.refusal(context, wanted, error.code)
            outcome.urgent = True
        except DiskFailed as failure:
            context.broker.disk_refused(failure)
            answer = answers.refusal(context, wanted, ErrorCode.KAFKA_STORAGE_ERROR)
            outcome.urgent = True
        outcome.answers[name] = answer
    return outcome


def _read(context: Context, reader: Reader, wanted: Wanted, outcome: Outcome) -> PartitionData:
    if isinstance(wanted.name, UnknownPartition):
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = find(context.broker, *wanted.name)
    if wanted.topic_id not in (NO_ID, partition.log.topic_id):
        raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
    if reader.session is not None:
        partition.sessions.setdefault(reader.session.number, reader.session.dirty)
    partition.check_epoch(wanted.leader_epoch)
    if reader.is_follower:
        return _read_as_follower(context, partition, reader, wanted, outcome)
    if context.version < FOLLOWER_READS_SINCE:
        partition.leading()
    preferred = closest.replica(partition, reader.rack, wanted.offset, context)
    if preferred is not None:
        outcome.urgent = True
        return _data(partition, b"", preferred=preferred, committed_only=reader.committed_only)
    if wanted.last_epoch != NO_EPOCH and (diverging := _divergence(partition, wanted, outcome)) is not None:
        return diverging
    limit = readable_end(partition, committed_only=reader.committed_only)
    records = _take(context, partition, reader, wanted, outcome, limit)
    answer = _data(partition, records, committed_only=reader.committed_only)
    if reader.committed_only and isinstance(records, FileSlice):
        answer.aborted_transactions = answers.aborted(partition, wanted.offset, records, limit)
    return answer


def readable_end(partition: Partition, *, committed_only: bool) -> int:
    """Below it consumers may read."""
    return partition.last_stable_offset if committed_only else partition.high_watermark


def check_follower(partition: Partition, replica: int) -> None:
    """Only assigned replicas may follow, and only the leader is followed."""
    if replica not in partition.leading().remote:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _read_as_follower(
    context: Context, partition: Partition, reader: Reader, wanted: Wanted, outcome: Outcome
) -> PartitionData:
    """A follower also learns where its log parts from this one. It hears of the high watermark at once only where
    consumers read from followers (KIP-392): that is one more round with each follower for each commit."""
    check_follower(partition, reader.replica)
    diverging = _divergence(partition, wanted, outcome)
    if diverging is not None:
        return diverging
    is_behind = wanted.sent_high_watermark < partition.high_watermark
    if is_behind and (wanted.sent_high_watermark < 0 or context.broker.config.replica_selector_class):
        outcome.urgent = True
    if wanted.sent_log_start < partition.log.log_start_offset:
        outcome.urgent = True
    return _data(partition, _pace(context, partition, reader, wanted, outcome))


def _pace(context: Context, partition: Partition, reader: Reader, wanted: Wanted, outcome: Outcome) -> Records:
    """What the throttle allows of a partition that it covers (KIP-73); a replica in sync gets all."""
    throttle, end = context.broker.throttles.leader, partition.log.log_end_offset
    if not throttle.covers(partition):
        return _take(context, partition, reader, wanted, outcome, end)
    room = NO_LIMIT
    if reader.replica not in partition.leading().isr and wanted.offset < end:
        room = throttle.room(context.now.mono, outcome.throttled)
        if not room:
            throttle.hold(partition.name)
            return b""
    before = outcome.size
    records = _take(context, partition, reader, wanted, outcome, end, room)
    outcome.throttled += outcome.size - before
    return records


def _divergence(partition: Partition, wanted: Wanted, outcome: Outcome) -> PartitionData | None:
    """The answer to a fetcher whose log parts from this one."""
    found = partition.diverging(wanted.last_epoch, wanted.offset)
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
    wanted: Wanted,
    outcome: Outcome,
    limit: int,
    room: int = NO_LIMIT,
) -> Records:
    """Records within `room` and what is left of the request's bytes; the first batch of an answer whatever its size."""
    left = min(wanted.max_bytes, reader.max_bytes - outcome.size, room)
    first = outcome.size == 0
    if left <= 0 and not first:
        outcome.short.add(wanted.name)
        return b""
    piece = answers.piece(context, partition, wanted, max(left, 0), limit, first=first)
    if piece is None:
        if wanted.offset < limit:
            outcome.short.add(wanted.name)
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


def _response(context: Context, reader: Reader, outcome: Outcome) -> FetchResponse:
    session = reader.session
    context.broker.throttles.leader.spend(outcome.throttled, context.now.mono)
    response = FetchResponse(session_id=session.number if session else NO_SESSION)
    incremental = session is not None and session.epoch != INITIAL_EPOCH
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    leaders: set[int] = set()
    for name, answer in outcome.answers.items():
        wanted = reader.wanted[name]
        is_named = not incremental or _has_changed(wanted, answer)
        _note_sent(session, wanted, answer, short=name in outcome.short)
        if not is_named:
            continue
        key = ("" if isinstance(name, UnknownPartition) else name.topic, wanted.topic_id)
        if key not in topics:
            topics[key] = FetchableTopicResponse(topic=key[0], topic_id=wanted.topic_id, partitions=[])
        topics[key].partitions.append(answer)
        if answer.error_code in MOVED and answer.current_leader.leader_id >= 0:
            leaders.add(answer.current_leader.leader_id)
    response.responses = list(topics.values())
    if session is not None:  # last in turn, and dirty until its fetcher has moved on
        session.dirty.update(dict.fromkeys(name for name, answer in outcome.answers.items() if answer.records))
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in endpoints(context, leaders)
        ]
    return response


def _has_changed(wanted: Wanted, answer: PartitionData) -> bool:
    """Whether an incremental answer must name this partition."""
    return (
        bool(answer.error_code)
        or bool(answer.records)
        or answer.high_watermark != wanted.sent_high_watermark
        or answer.log_start_offset != wanted.sent_log_start
        or answer.preferred_read_replica >= 0
        or answer.diverging_epoch.epoch >= 0
        or answer.diverging_epoch.end_offset >= 0
    )


def _note_sent(session: Session | None, wanted: Wanted, answer: PartitionData, *, short: bool) -> None:
    """What the fetcher knows from now on. A partition is clean when nothing is left to read where its fetcher is, which
    is where it was until it says otherwise; one that was refused stays dirty."""
    if answer.error_code:
        wanted.sent_high_watermark = -1
    else:
        diverges = answer.diverging_epoch.end_offset >= 0  # then the fetcher takes nothing else of the answer
        wanted.sent_high_watermark = -1 if diverges else answer.high_watermark
        wanted.sent_log_start = -1 if diverges else answer.log_start_offset
    if session is None:
        return
    if answer.error_code or short:
        session.dirty.setdefault(wanted.name)
    else:
        session.dirty.pop(wanted.name, None)
