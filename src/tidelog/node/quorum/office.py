"""What the leader of the quorum does for the cluster: it founds it, and ends the sessions of brokers.

A session lasts as long as its broker fetches the metadata log, which it does at least every half second: a fetch proves
that the broker's event loop runs, so no other heartbeat is needed. A broker learns from the log that its session has
ended. The session of the leader's own process has no lease: a leader that no majority fetches from resigns. One that
another process had under its number, as before its directory was replaced, ends like all others.
"""

from collections.abc import Iterator, Sequence

from tidelog.controller.controller import NO_OFFICE
from tidelog.ports import Change
from tidelog.quorum.leases import Leases
from tidelog.quorum.records import NO_SESSION, SessionEnded, SessionOpened, TreeChanges, encode
from tidelog.quorum.tree import Tree
from tidelog.quorum.voters import ReplicaKey

LEASE_OVER, GONE, STOPPED = "lease over", "process gone", "stopped"


class Office:
    """`epoch` is that of the quorum while this node leads it and knows all that earlier leaders committed."""

    def __init__(self, broker_id: int, incarnation: bytes, term_ms: int, founding: Sequence[Change]) -> None:
        self.epoch = NO_OFFICE
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._leases = Leases(term_ms)
        self._founding = founding

    def __repr__(self) -> str:
        return f"Office({self.epoch}, {self._leases})"

    @property
    def next_deadline(self) -> int | None:
        return self._leases.deadline if self.epoch != NO_OFFICE else None

    def begin(self, epoch: int, found: Tree, now: int) -> list[bytes]:
        """All brokers get a full term. The records to append."""
        self.epoch = epoch
        sessions = [each.session for each in found.sessions.values() if each.incarnation != self._incarnation]
        self._leases.start(sessions, now)
        is_founded = not self._founding or self._founding[0].path in found.nodes
        return [] if is_founded else [encode(TreeChanges(NO_SESSION, 0, self._founding))]

    def end(self) -> None:
        self.epoch = NO_OFFICE
        self._leases.start((), 0)

    def opened(self, offset: int, record: SessionOpened, now: int) -> None:
        """The session with this offset began."""
        if self.epoch != NO_OFFICE:
            self._leases.drop(record.replaces)
            if record.incarnation != self._incarnation:
                self._leases.grant(offset, now)

    def ended(self, session: int) -> None:
        self._leases.drop(session)

    def fetched(self, found: Tree, replica: ReplicaKey, now: int) -> None:
        """The broker fetches the metadata log. A node with this number and another directory, as after a disk was
        replaced, is not the one whose session it is, and waits for its end."""
        session = found.session_of(replica.id)
        if session is not None and replica.directory in session.log_dirs:
            self._leases.renew(session.session, now)

    def gone(self, found: Tree, broker_id: int, now: int) -> list[bytes]:
        """The broker's process is dead. The records to append."""
        session = found.session_of(broker_id)
        if session is None or session.session not in self._leases:
            return []
        self._leases.end(session.session, now)
        return [encode(SessionEnded(session.session, GONE))]

    def over(self, now: int) -> list[bytes]:
        """The records that end the sessions whose leases are over."""
        if self.epoch == NO_OFFICE:
            return []
        return [encode(SessionEnded(session, LEASE_OVER)) for session in self._leases.over(now)]

    def watched(self, found: Tree) -> Iterator[int]:
        """The brokers whose end this node must notice."""
        if self.epoch != NO_OFFICE:
            watched = (each.broker_id for each in found.sessions.values() if each.session in self._leases)
            yield from (each for each in watched if each != self._broker_id)
