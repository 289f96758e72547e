"""Fetch (1): records for consumers and for followers (KIP-74, 227, 320, 392, 595, 951).

A fetch is answered at once if there are enough bytes, an error, or news that a follower needs; otherwise it waits until
its partitions are dirty, without polling. `fetch_partition` reads one partition.

A fetch of many partitions pauses after each `SLICE` of them, so that others are served meanwhile. What it holds across
a pause may be outdated behind it: partitions are looked up again, and a session may have lost some, or be closed.
"""

from collections.abc import Generator, Iterable, Sequence

from tidelog.api.context import Context
from tidelog.api.records.fetch_partition import Outcome, Reader, read, refusal
from tidelog.api.records.leaders import MOVED, endpoints
from tidelog.api.records.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchedPartition,
    Session,
    UnknownPartition,
)
from tidelog.effects import Deferred, Readable, Signal
from tidelog.errors import ApiError, DiskFailed, ErrorCode
from tidelog.model import NO_EPOCH, NO_ID, TopicPartition
from tidelog.wire.messages.records.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)
from tidelog.wire.refusals import refuse

SLICE = 500
CONSUMER = -1
READ_COMMITTED = 1
TOPIC_IDS_SINCE = 13
EXAMINATION_WAIT_MS = 5_000
"""How long a fetch may wait beyond its deadline while the records that it requests are checked for disk corruption."""


Answer = Generator[None, None, FetchResponse | Deferred]


def handle(request: FetchRequest, context: Context) -> Answer:
    """A follower's progress is recorded before its partitions are read, so that the answer has the high watermark that
    this very fetch moved."""
    replica = request.replica_state.replica_id if context.version >= 15 else request.replica_id
    if replica >= 0 and context.listener != context.broker.inter_broker_listener:
        return FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if replica >= 0 and context.access is not None:
        return _refused(request)
    try:
        reader = yield from _reader(request, replica, context)
    except ApiError as error:
        return FetchResponse(error_code=error.code)
    if reader.is_follower:
        yield from _record_progress(reader, context)
    return (yield from _answer_or_wait(context, reader))


def _refused(request: FetchRequest) -> FetchResponse:
    """To a fetcher that says it is a replica and is no broker, by its principal; Kafka names the topics."""
    response: FetchResponse = refuse(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    response.error_code = ErrorCode.NONE
    return response


def _reader(request: FetchRequest, replica: int, context: Context) -> Generator[None, None, Reader]:
    requested: dict[FetchedPartition, CachedPartition] = {}
    for count, one in enumerate(_requested_partitions(request, context), 1):
        requested[one.name] = one
        if not count % SLICE:
            yield
    session, partitions = yield from _session_of(request, replica, requested, context)
    return Reader(
        replica=replica,
        broker_epoch=request.replica_state.replica_epoch,
        deadline=context.now.mono + request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=min(request.max_bytes, _allowed_bytes(context)),
        committed_only=request.isolation_level == READ_COMMITTED,
        rack=request.rack_id,
        session=session,
        partitions=partitions,
        named=list(requested),
    )


def _allowed_bytes(context: Context) -> int:
    """The limit of the answer: fetch.max.bytes, or less by the client's quota."""
    most = context.broker.config.fetch_max_bytes
    if context.bill is None:
        return most
    within_quota = context.broker.quotas.max_fetch_bytes(context.bill.user, context.bill.client_id)
    return most if within_quota is None else min(most, within_quota)


# Sessions: the partitions that a request names, and those that its session remembers (KIP-227).


def _requested_partitions(request: FetchRequest, context: Context) -> Iterable[CachedPartition]:
    by_id = context.version >= TOPIC_IDS_SINCE
    for topic in request.topics:
        name = _name(topic.topic, topic.topic_id, context, by_id=by_id)
        for partition in topic.partitions:
            yield CachedPartition(
                _partition(name, topic.topic_id, partition.partition),
                topic.topic_id if by_id else NO_ID,
                partition.fetch_offset,
                partition.partition_max_bytes,
                max(partition.current_leader_epoch, NO_EPOCH),
                max(partition.last_fetched_epoch, NO_EPOCH),
                partition.log_start_offset,
            )


def _name(name: str, topic_id: bytes, context: Context, *, by_id: bool) -> str | None:
    """The topic's name; None for an id that is not known here."""
    return context.broker.topic_name(topic_id) if by_id else name


def _partition(name: str | None, topic_id: bytes, index: int) -> FetchedPartition:
    return UnknownPartition(topic_id, index) if name is None else TopicPartition(name, index)


def _session_of(
    request: FetchRequest, replica: int, requested: dict[FetchedPartition, CachedPartition], context: Context
) -> Generator[None, None, tuple[Session | None, dict[FetchedPartition, CachedPartition]]]:
    """(the request's session, or None; every partition that the request reads)."""
    sessions = context.broker.sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            yield from _detach(sessions.close(request.session_id), context)
        session = None
        if request.session_epoch == INITIAL_EPOCH and requested:
            session, evicted = sessions.open(replica, len(requested), context.now.mono)
            if evicted is not None:
                yield from _detach(evicted, context)
        if session is not None:
            session.partitions = requested
        return session, requested
    session = sessions.find(request.session_id, request.session_epoch, len(requested), context.now.mono)
    unknown = [name for name in session.dirty if isinstance(name, UnknownPartition)]
    if unknown:
        yield from _resolve_topic_ids(session, unknown, context)
    for one in requested.values():
        # What was sent is not sent again, except in a new leader epoch.
        known = session.partitions.get(one.name)
        if known is not None and known.leader_epoch == one.leader_epoch:
            one.sent_high_watermark, one.sent_log_start = known.sent_high_watermark, known.sent_log_start
        session.partitions[one.name] = one
    if request.forgotten_topics_data:
        yield from _forget_requested(request, session, context)
    return session, session.partitions


def _forget_requested(request: FetchRequest, session: Session, context: Context) -> Generator[None, None, None]:
    """If a topic was deleted meanwhile, the request has only its id, but the session its name."""
    by_id = context.version >= TOPIC_IDS_SINCE
    by_topic_id: dict[tuple[bytes, int], FetchedPartition] | None = None
    count = 0
    for topic in request.forgotten_topics_data:
        name = _name(topic.topic, topic.topic_id, context, by_id=by_id)
        for index in topic.partitions:
            partition = _partition(name, topic.topic_id, index)
            if isinstance(partition, UnknownPartition) and partition not in session.partitions:
                if by_topic_id is None:
                    by_topic_id = {(cached.topic_id, n.partition): n for n, cached in session.partitions.items()}
                partition = by_topic_id.get((topic.topic_id, index), partition)
            _forget(session, partition, context)
            count += 1
            if not count % SLICE:
                yield


def _resolve_topic_ids(
    session: Session, names: Sequence[UnknownPartition], context: Context
) -> Generator[None, None, None]:
    """A topic whose id was unknown may be known by now: from then on its partitions are in the session by name."""
    for count, unknown in enumerate(names, 1):
        if not count % SLICE:
            yield
        cached = session.partitions.get(unknown)
        name = context.broker.topic_name(unknown.topic_id)
        if cached is not None and name is not None and unknown in session.dirty:
            cached.name = TopicPartition(name, unknown.partition)
            del session.partitions[unknown], session.dirty[unknown]
            session.partitions.setdefault(cached.name, cached)
            session.dirty[cached.name] = None


def _detach(session: Session | None, context: Context) -> Generator[None, None, None]:
    """The session is closed: its partitions must not mark themselves dirty in it any more."""
    for count, name in enumerate(list(session.partitions) if session is not None else (), 1):
        assert session is not None
        _forget(session, name, context)
        if not count % SLICE:
            yield


def _forget(session: Session, name: FetchedPartition, context: Context) -> None:
    session.partitions.pop(name, None)
    session.dirty.pop(name, None)
    partition = context.broker.replicas.get(*name) if isinstance(name, TopicPartition) else None
    if partition is not None:
        partition.sessions.pop(session.number, None)


# Answers.


def _record_progress(reader: Reader, context: Context) -> Generator[None, None, None]:
    """Rules 1 and 3: a follower's progress may move the high watermark, and may bring the follower into the ISR. Its
    log counts only if it does not diverge from this one."""
    broker, session = context.broker, reader.session
    names = reader.named
    if session is not None and session.broker_epoch != reader.broker_epoch:
        # The broker registered again: its new epoch holds for all partitions of the session, not only for those named.
        session.broker_epoch = reader.broker_epoch
        names = list(session.partitions)
    for count, name in enumerate(names, 1):
        if not count % SLICE:
            yield
        if isinstance(name, UnknownPartition):
            continue
        cached = reader.partitions.get(name)
        partition = broker.replicas.get(*name)
        if partition is None or cached is None:
            continue
        try:
            partition.check_epoch(cached.leader_epoch)
            if partition.diverging(cached.last_epoch, cached.offset) is not None:
                continue
            partition.follower_fetched(
                reader.replica, cached.offset, cached.log_start, reader.broker_epoch, context.now
            )
        except ApiError:
            continue
        partition.advance(context.now, broker.eligible)
        proposal = partition.propose_expansion(reader.replica, broker.broker_epoch, broker.eligible)
        if proposal is not None:
            broker.propose(name, proposal)


def _answer_or_wait(context: Context, reader: Reader) -> Answer:
    outcome = yield from _collect(context, reader)
    # An error is answered at once. Otherwise the request could wait until the error has passed, and be answered as if
    # the follower's progress had been recorded.
    examining = outcome.short and not outcome.size and not any(each.error_code for each in outcome.answers.values())
    deadline = reader.deadline + EXAMINATION_WAIT_MS if examining else reader.deadline
    enough = outcome.size >= reader.min_bytes or outcome.urgent or not reader.partitions
    if (enough and not examining) or context.now.mono >= deadline:
        return (yield from _response(context, reader, outcome))
    if reader.session is not None:
        # A high watermark alone does not end a follower's wait, unless consumers read from followers (KIP-392).
        patient = reader.is_follower and not context.broker.config.replica_selector_class
        return Deferred((Signal(reader.session.dirty_key(patient=patient)),), deadline, _answer_or_wait, (reader,))
    conditions = [Readable(name) for name in reader.partitions if isinstance(name, TopicPartition)]
    return Deferred(conditions, deadline, _answer_or_wait, (reader,))


def _collect(context: Context, reader: Reader) -> Generator[None, None, Outcome]:
    outcome = Outcome()
    for count, name in enumerate(reader.candidates(), 1):
        if not count % SLICE:
            yield
        cached = reader.partitions.get(name)
        if cached is None:
            continue
        try:
            answer = read(context, reader, cached, outcome)
        except ApiError as error:
            answer = refusal(context, cached, error.code)
            outcome.urgent = True
        except DiskFailed as failure:
            context.broker.disk_failed(failure)
            answer = refusal(context, cached, ErrorCode.KAFKA_STORAGE_ERROR)
            outcome.urgent = True
        outcome.answers[name] = answer
    return outcome


def _response(context: Context, reader: Reader, outcome: Outcome) -> Generator[None, None, FetchResponse]:
    session = reader.session
    context.broker.throttles.leader.spend(outcome.throttled, context.now.mono)
    response = FetchResponse(session_id=session.number if session else NO_SESSION)
    incremental = session is not None and session.epoch != INITIAL_EPOCH
    topics: dict[tuple[str, bytes], FetchableTopicResponse] = {}
    leaders: set[int] = set()
    for count, (name, answer) in enumerate(outcome.answers.items(), 1):
        if not count % SLICE:
            yield
        cached = reader.partitions.get(name)
        if cached is None:
            continue
        is_named = not incremental or _has_changed(cached, answer)
        _record_sent(session, cached, answer, short=name in outcome.short)
        if not is_named:
            continue
        key = ("" if isinstance(name, UnknownPartition) else name.topic, cached.topic_id)
        if key not in topics:
            topics[key] = FetchableTopicResponse(topic=key[0], topic_id=cached.topic_id, partitions=[])
        topics[key].partitions.append(answer)
        if answer.error_code in MOVED and answer.current_leader.leader_id >= 0:
            leaders.add(answer.current_leader.leader_id)
    response.responses = list(topics.values())
    # Partitions with records come last in the next answer, so that the others are not starved; they stay dirty until a
    # fetch beyond these records finds no more.
    if session is not None:
        session.dirty.update(dict.fromkeys(name for name, answer in outcome.answers.items() if answer.records))
    if leaders:
        response.node_endpoints = [
            NodeEndpoint(node_id=node, host=host, port=port, rack=rack)
            for node, host, port, rack in endpoints(context, leaders)
        ]
    return response


def _has_changed(cached: CachedPartition, answer: PartitionData) -> bool:
    """Whether an incremental answer must name this partition."""
    return (
        bool(answer.error_code)
        or bool(answer.records)
        or answer.high_watermark != cached.sent_high_watermark
        or answer.log_start_offset != cached.sent_log_start
        or answer.preferred_read_replica >= 0
        or answer.diverging_epoch.epoch >= 0
        or answer.diverging_epoch.end_offset >= 0
    )


def _record_sent(session: Session | None, cached: CachedPartition, answer: PartitionData, *, short: bool) -> None:
    """Record what the fetcher knows after this answer. A partition is clean if nothing is left to read from the offset
    last requested; after an error it stays dirty."""
    if answer.error_code:
        cached.sent_high_watermark = -1
    else:
        diverges = answer.diverging_epoch.end_offset >= 0  # the fetcher then ignores everything else in the answer
        cached.sent_high_watermark = -1 if diverges else answer.high_watermark
        cached.sent_log_start = -1 if diverges else answer.log_start_offset
    if session is None:
        return
    if answer.error_code or short:
        session.dirty.setdefault(cached.name)
    else:
        session.dirty.pop(cached.name, None)
