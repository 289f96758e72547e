"""The seam between a broker and the metadata store: a closed gate is a store that cannot be reached.

While the gate is closed the broker's lease is not renewed, so that the others end its session after
`broker.session.timeout.ms`, and what it asks the store waits.
"""

from collections.abc import Callable, Sequence
from threading import Event
from typing import Any

from tidelog.ports import Operation, StoreResult
from tidelog.shell.store.store_address import StoreAddress, open_store
from tidelog.shell.store.store_thread import Session

CHECK_S = 0.01


class StoreGate:
    """The gate of one life of a broker. `end` opens it for good and answers everything that waits with `unknown`."""

    def __init__(self) -> None:
        self._is_open = Event()
        self._is_open.set()
        self._shut_by: set[str] = set()
        self._ended = False

    def __repr__(self) -> str:
        return f"StoreGate({'open' if self._is_open.is_set() else 'closed'})"

    def close(self, reason: str) -> None:
        self._shut_by.add(reason)
        self._is_open.clear()

    def open(self, reason: str) -> None:
        """The reason has ended; others may remain."""
        self._shut_by.discard(reason)
        if not self._shut_by:
            self._is_open.set()

    def end(self) -> None:
        self._ended = True
        self._is_open.set()

    def open_store(self, address: StoreAddress, *, is_alive: Callable[[], bool], **options: Any) -> Session:
        """`store_address.open_store`, behind this gate."""
        self._is_open.wait()
        session = open_store(address, is_alive=lambda: self._is_open.is_set() and is_alive(), **options)
        return _GatedSession(session, self)

    def passes(self, session: Session) -> bool:
        """Wait until the session may be used; False if it is lost, or the broker has ended."""
        while not self._is_open.wait(CHECK_S):
            if session.lost:
                return False
        return not self._ended


class _GatedSession:
    def __init__(self, session: Session, gate: StoreGate) -> None:
        self._inner = session
        self._gate = gate
        self.session = session.session

    def __repr__(self) -> str:
        return f"_GatedSession({self._inner}, {self._gate})"

    @property
    def lost(self) -> bool:
        return self._inner.lost

    @property
    def silent(self) -> bool:
        return self._inner.silent

    def apply(self, operations: Sequence[Operation]) -> StoreResult:
        return self._inner.apply(operations) if self._gate.passes(self._inner) else StoreResult("unknown")

    def events(self) -> Sequence[str]:
        return self._inner.events() if self._gate.passes(self._inner) else ()

    def close(self) -> None:
        self._inner.close()
