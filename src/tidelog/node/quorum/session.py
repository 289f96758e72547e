"""This node's session as a broker of the quorum, and the operations that it submits in it.

A session begins and ends by a record of the metadata log, as every node applies it: this one has a session from the
moment when it applies the record, not when it sends it. Operations that were submitted before an end are answered by
the end. Methods return what the node must know, in order.
"""

from collections.abc import Collection

from tidelog.effects import Store
from tidelog.node.quorum.local_tree import LocalTree
from tidelog.node.quorum.notices import Notice, Result, SessionLost, SessionStarted
from tidelog.node.quorum.office import STOPPED
from tidelog.node.quorum.tree_writes import UNKNOWN, Results, TreeWrites
from tidelog.quorum.records import NO_SESSION, Decoded, OpenSession, SessionEnded, SessionOpened, TreeChanges
from tidelog.quorum.tree import Applied


class BrokerSession:
    """`number` is NO_SESSION while this process has none. `directory` is the log directory with the metadata log."""

    def __init__(self, broker_id: int, incarnation: bytes, directory: bytes, local: LocalTree) -> None:
        self.number = NO_SESSION
        self.writes = TreeWrites(local)
        self._broker_id = broker_id
        self._incarnation = incarnation
        self._directory = directory
        self._local = local
        self._accepted = NO_SESSION
        """What the node knows to be its session. It lags behind `number`: what it submits meanwhile is meant for a
        session that is over, and must not be done in the next one."""
        self._is_leaving = False
        self._is_blocked = False
        """Another process with this node's number has a session, and was reported."""

    def __repr__(self) -> str:
        return f"BrokerSession({self.number}, {self.writes})"

    def accept(self, session: int) -> None:
        """The node knows this session: what it submits from now on is meant for it."""
        self._accepted = session

    def submit(self, store: Store) -> list[Notice]:
        """Operations of the node. What is meant for a session that is over has no result: the loss of the session
        answers it. RecordTooLarge if it does not fit into the log."""
        if self._accepted != self.number:
            return []
        return _notices(self.writes.submit(self.number, store))

    def request(self, directories: Collection[bytes]) -> OpenSession | None:
        """Request a session, unless there is one. The session of this node's former process is replaced at once, but
        not that of another process with its number, which has none of its log directories: that one is returned the
        first time that it is in the way."""
        if self.number != NO_SESSION or self._is_leaving or self.writes.is_opening:
            return None
        tree = self._local.tree
        own = tuple(sorted({*directories, self._directory}))
        former = tree.session_of(self._broker_id)
        if former is not None and not set(own) & set(former.log_dirs):
            was_blocked, self._is_blocked = self._is_blocked, True
            return None if was_blocked else former
        self._is_blocked = False
        replaces = tree.last_session_of(self._broker_id)
        self.writes.open(SessionOpened(self._broker_id, self._incarnation, own, replaces, ()))
        return None

    def leave(self) -> None:
        """End the session by a record, and request no other one."""
        self._is_leaving = True
        self.writes.close(SessionEnded(self.number, STOPPED))

    def applied(self, record: Decoded, applied: Applied) -> list[Notice]:
        """The record was applied to this node's tree, and did this."""
        match record:
            case TreeChanges(session, number) if session == self.number != NO_SESSION:
                return _notices(self.writes.applied(number, applied.store_result()))
            case SessionOpened(broker_id, incarnation) if broker_id == self._broker_id:
                notices = self._follow()
                if incarnation == self._incarnation:
                    self.writes.opened()
                return notices
            case SessionEnded(session):
                if session == self.number:
                    self.writes.opened()
                return self._follow()
        return []

    def loaded(self) -> list[Notice]:
        """The tree is that of a snapshot: what the records before it did is not known one by one."""
        notices = self._follow()
        self.writes.opened()
        own = self._local.tree.sessions.get(self.number)
        return notices if own is None else notices + _notices(self.writes.applied(own.number, UNKNOWN))

    def _follow(self) -> list[Notice]:
        """The node's session is that of this process, whichever of its records opened it."""
        newest = self._local.tree.session_of(self._broker_id)
        session = newest.session if newest is not None and newest.incarnation == self._incarnation else NO_SESSION
        notices: list[Notice] = []
        if self.number not in (NO_SESSION, session):
            self.writes.session_over()
            self._local.end_watches()
            notices.append(SessionLost())
        if session not in (NO_SESSION, self.number):
            notices.append(SessionStarted(session))
        self.number = session
        return notices


def _notices(results: Results) -> list[Notice]:
    return [Result(token, result) for token, result in results]
