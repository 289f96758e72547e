"""Incremental fetch sessions (KIP-227): the broker keeps what a fetcher reads, and answers only with changes.

A session knows which of its partitions are dirty, because partitions add themselves (`Partition.mark_dirty`): an idle
fetch costs nothing per partition, however many there are. Rules: an id and an epoch; epoch 0 opens, -1 is sessionless
or closes, each following request raises the epoch by one, and an unexpected one is INVALID_FETCH_SESSION_EPOCH.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition

ANY_CHANGE, FOLLOWER_CHANGE = "session", "replica"
"""Signals that end the wait of a session's fetch: followers do not need every new high watermark at once."""
NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
EVICTION_MS = 120_000
"""How long a session must be unused before it makes room (Kafka's min.incremental.fetch.session.eviction.ms)."""
MOST_PARTITIONS = 500_000
"""In the sessions of all consumers together: some 200 MB. A consumer that finds no room fetches without a session."""
_FEW = 100
_LARGEST = 2**31 - 1


class UnknownPartition(NamedTuple):
    """A partition of a topic whose ID this broker does not know (yet). It is in the session and in answers as others
    are."""

    topic_id: bytes
    partition: int


FetchedPartition = TopicPartition | UnknownPartition


@dataclass(slots=True)
class CachedPartition:
    """One partition as its fetcher last requested it, and the offsets last sent (-1: send again)."""

    name: FetchedPartition
    topic_id: bytes
    offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int
    log_start: int
    sent_high_watermark: int = -1
    sent_log_start: int = -1


@dataclass(slots=True)
class Session:
    """`dirty` is shared with the partitions, which put themselves into it. `broker_epoch`: a replica's, as it last
    fetched."""

    number: int
    epoch: int
    replica: int
    used_at: int
    broker_epoch: int = -1
    partitions: dict[FetchedPartition, CachedPartition] = field(default_factory=dict)
    dirty: dict[FetchedPartition, None] = field(default_factory=dict)

    def dirty_key(self, *, patient: bool) -> tuple[str, int]:
        """The signal that ends the wait of its fetch; a patient one gets a new high watermark with the next records."""
        return (FOLLOWER_CHANGE if patient else ANY_CHANGE, self.number)

    def next_epoch(self) -> int:
        return 1 if self.epoch == _LARGEST else self.epoch + 1


class Sessions:
    """At most `slots` sessions. The one longest unused makes room if it is stale, a consumer's for a replica at any
    time. Were those in use to make room, more consumers than slots would push out each other's at every fetch."""

    def __init__(self, slots: int, entropy: Callable[[int], bytes]) -> None:
        self._slots = slots
        self._entropy = entropy
        self._sessions: dict[int, Session] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, number: int, epoch: int, count: int, now: int) -> Session:
        """The session, for a request that names that many partitions."""
        session = self._sessions.get(number)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.next_epoch():
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if not self._have_room(session.replica, count):
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = epoch
        session.used_at = now
        return session

    def _have_room(self, replica: int, count: int) -> bool:
        """Whether a fetcher may add that many partitions. Few fetches add many."""
        if replica >= 0 or count <= _FEW:
            return True
        held = sum(len(session.partitions) for session in self._sessions.values() if session.replica < 0)
        return held + count <= MOST_PARTITIONS

    def open(self, replica: int, count: int, now: int) -> tuple[Session | None, Session | None]:
        """(the new session for that many partitions, or None if there is no room; the session that was evicted for
        it)."""
        evicted = None
        if not self._have_room(replica, count):
            return None, None
        if len(self._sessions) >= self._slots:
            evicted = self._evictable(replica, now)
            if evicted is None:
                return None, None
            self.close(evicted.number)
            self.evictions += 1
        number = self._new_number()
        session = Session(number, INITIAL_EPOCH, replica, now)
        self._sessions[number] = session
        return session, evicted

    def close(self, number: int) -> Session | None:
        return self._sessions.pop(number, None)

    def _evictable(self, replica: int, now: int) -> Session | None:
        candidates = (
            session
            for session in self._sessions.values()
            if now - session.used_at > EVICTION_MS or (replica >= 0 and session.replica < 0)
        )
        return min(candidates, key=lambda session: session.used_at, default=None)

    def _new_number(self) -> int:
        while True:
            number = int.from_bytes(self._entropy(4)) & _LARGEST
            if number != NO_SESSION and number not in self._sessions:
                return number
