"""The thread on which a metadata store is called, because a commit waits for the disk.

Operations run in the order of submission. Results, changed watched paths, a store silent for a whole session timeout,
and the end of the session are reported to the loop in the order in which they happened. When a silent store answers
again, all watched paths count as changed. When a session ends a new one is opened; operations submitted before the loop
knows the new one are answered `unknown`, since they were meant for the old.
"""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Protocol

from tidelog.ports import MetadataStore, Operation, StoreResult

RETRY_S = 1.0


class Session(MetadataStore, Protocol):
    """A store that knows that its session was ended (`lost`), or may have been: `silent` after a whole session timeout
    without contact."""

    @property
    def lost(self) -> bool: ...

    @property
    def silent(self) -> bool: ...


class Listener(Protocol):
    """Receives the reports, on the thread; each method must hand over to the loop."""

    def session_started(self, session: int) -> None: ...

    def store_result(self, token: int, result: StoreResult) -> None: ...

    def store_event(self, path: str) -> None: ...

    def store_silent(self) -> None: ...

    def session_lost(self) -> None: ...

    def store_unreachable(self, reason: str) -> None: ...


class StoreThread:
    """`open_session(notify)` opens a session; `notify` may be called from any thread."""

    def __init__(self, open_session: Callable[[Callable[[], None]], Session]) -> None:
        self._open_session = open_session
        self._queue: SimpleQueue[tuple[int, int, Sequence[Operation]] | None] = SimpleQueue()
        self._stopping = Event()
        self._silent = False
        self._thread = Thread(target=self._run, name="store", daemon=True)
        self.store: Session = open_session(self._wake)
        """The current session; the caller may use it until `start`."""
        self._accepted = self.store.session

    def __repr__(self) -> str:
        return f"StoreThread({self.store}, {self._queue.qsize()} waiting)"

    def start(self, listener: Listener) -> None:
        self._listener = listener
        self._thread.start()

    def accept(self, session: int) -> None:
        """The loop knows this session: operations that it submits from now on are meant for it."""
        self._accepted = session

    def submit(self, token: int, operations: Sequence[Operation]) -> None:
        self._queue.put((self._accepted, token, operations))

    def stop(self) -> None:
        """Run what was submitted, then end the session."""
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self.store.close()

    def _wake(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        self._listener.session_started(self.store.session)
        while not (self._stopping.is_set() and self._queue.empty()):
            item = self._queue.get()
            if item is not None:
                session, token, operations = item
                is_current = session == self.store.session
                self._listener.store_result(
                    token, self.store.apply(operations) if is_current else StoreResult("unknown")
                )
            for path in self.store.events():
                self._listener.store_event(path)
            self._report_silence()
            if self.store.lost and not self._stopping.is_set():
                self._open_new_session()

    def _report_silence(self) -> None:
        if self.store.silent and not self._silent:
            self._listener.store_silent()
        self._silent = self.store.silent

    def _open_new_session(self) -> None:
        self._listener.session_lost()
        self.store.close()
        while not self._stopping.is_set():
            try:
                self.store = self._open_session(self._wake)
            except Exception as error:
                self._listener.store_unreachable(str(error))
                self._stopping.wait(RETRY_S)
            else:
                self._listener.session_started(self.store.session)
                return
