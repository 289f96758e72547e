"""What a fetch asks for: the partitions that it names, and those that its session remembers (KIP-227)."""

from collections.abc import Iterable, Sequence

from tidelog.api.context import Context
from tidelog.api.records.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    Session,
    UnknownPartition,
    Wanted,
)
from tidelog.model import NO_EPOCH, NO_ID, TopicPartition
from tidelog.wire.messages.records.fetch import FetchRequest

TOPIC_IDS_SINCE = 13


def asked_partitions(request: FetchRequest, context: Context) -> Iterable[Wanted]:
    by_id = context.version >= TOPIC_IDS_SINCE
    for topic in request.topics:
        name = _name(topic.topic, topic.topic_id, context, by_id=by_id)
        for partition in topic.partitions:
            yield Wanted(
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


def session_of(
    request: FetchRequest, replica: int, asked: Sequence[Wanted], context: Context
) -> tuple[Session | None, dict[FetchedPartition, Wanted]]:
    """The session of this request, if it has one, and all that it reads."""
    sessions = context.broker.sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            _leave(sessions.close(request.session_id), context)
        session = None
        if request.session_epoch == INITIAL_EPOCH and asked:
            session, evicted = sessions.open(replica, context.now.mono)
            _leave(evicted, context)
        wanted = {one.name: one for one in asked}
        if session is not None:
            session.wanted = wanted
        return session, wanted
    session = sessions.find(request.session_id, request.session_epoch, context.now.mono)
    _resolve(session, context)
    for one in asked:
        known = session.wanted.get(one.name)
        if known is not None and known.leader_epoch == one.leader_epoch:
            one.sent_high_watermark, one.sent_log_start = known.sent_high_watermark, known.sent_log_start
        session.wanted[one.name] = one
    by_id = context.version >= TOPIC_IDS_SINCE
    for topic in request.forgotten_topics_data:
        name = _name(topic.topic, topic.topic_id, context, by_id=by_id)
        for index in topic.partitions:
            _forget(session, _held_as(session, _partition(name, topic.topic_id, index)), context)
    return session, session.wanted


def _held_as(session: Session, name: FetchedPartition) -> FetchedPartition:
    """How the session names it: a topic that is gone meanwhile is known by its id only, but is held by its name."""
    if name in session.wanted or isinstance(name, TopicPartition):
        return name
    asked = name.topic_id, name.partition
    return next((n for n, wanted in session.wanted.items() if (wanted.topic_id, n.partition) == asked), name)


def _resolve(session: Session, context: Context) -> None:
    """A topic whose id was unknown may be known by now: its partitions go on under its name."""
    for unknown in [name for name in session.dirty if isinstance(name, UnknownPartition)]:
        wanted = session.wanted.get(unknown)
        name = context.broker.topic_name(unknown.topic_id)
        if wanted is not None and name is not None:
            wanted.name = TopicPartition(name, unknown.partition)
            del session.wanted[unknown], session.dirty[unknown]
            session.wanted.setdefault(wanted.name, wanted)
            session.dirty[wanted.name] = None


def _leave(session: Session | None, context: Context) -> None:
    if session is not None:
        for name in list(session.wanted):
            _forget(session, name, context)


def _forget(session: Session, name: FetchedPartition, context: Context) -> None:
    session.wanted.pop(name, None)
    session.dirty.pop(name, None)
    partition = context.broker.replicas.get(*name) if isinstance(name, TopicPartition) else None
    if partition is not None:
        partition.sessions.pop(session.number, None)
