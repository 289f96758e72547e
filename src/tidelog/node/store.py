"""The node's side of the metadata store: each submission has a token and a callback for its result."""

from collections.abc import Callable, Sequence
from itertools import count

from tidelog.effects import Store
from tidelog.ports import Operation, StoreResult

UNKNOWN = StoreResult("unknown")


class StoreCalls:
    """Submissions under way. `send` takes the `Store` effects. Between two sessions they wait for the next one: the
    world could only answer `unknown`, and retries would never end. `is_silent`: the world reported silence, and nothing
    was heard since; `mono` is the time, in milliseconds."""

    def __init__(self, send: Callable[[Store], None], mono: Callable[[], int] = lambda: 0) -> None:
        self._send = send
        self._mono = mono
        self.is_silent = False
        self._since: dict[int, int] = {}
        self._tokens = count(1)
        self._then: dict[int, Callable[[StoreResult], None]] = {}
        self._held: list[Store] | None = None

    def __repr__(self) -> str:
        return f"<StoreCalls {len(self._then)} under way>"

    def submit(self, operations: Sequence[Operation], then: Callable[[StoreResult], None]) -> None:
        token = next(self._tokens)
        self._then[token] = then
        self._since[token] = self._mono()
        (self._send if self._held is None else self._held.append)(Store(token, tuple(operations)))

    def result(self, token: int, result: StoreResult) -> None:
        self.is_silent = self.is_silent and result.outcome == "unknown"
        self._since.pop(token, None)
        then = self._then.pop(token, None)
        if then is not None:
            then(result)

    @property
    def has_session(self) -> bool:
        return self._held is None

    @property
    def waiting_ms(self) -> int:
        """How long the oldest call has waited for its result; 0 if none is under way."""
        return self._mono() - next(iter(self._since.values())) if self._since else 0

    def session_started(self) -> None:
        self.is_silent = False
        held, self._held = self._held, None
        for store in held or ():
            self._send(store)

    def session_lost(self) -> None:
        """Whatever was under way may or may not have happened."""
        self._held = []
        pending, self._then = self._then, {}
        self._since.clear()
        for then in pending.values():
            then(UNKNOWN)
