"""Work that would hold up the event loop and depends on its arguments only: and who waits for which result.

A request waits for `Signal(("computed", token))`; other parts pass a function that gets the result.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidelog.effects import Compute, Effect


@dataclass(slots=True, eq=False)
class Computation:
    """`result` is an ApiError if the function raised one."""

    token: int
    notify: Callable[[Any], None] | None = None
    is_done: bool = False
    result: Any = None


@dataclass(slots=True)
class Computing:
    """`wake` signals that a result is there."""

    effects: list[Effect]
    wake: Callable[[int], None]
    _open: dict[int, Computation] = field(default_factory=dict)
    _tokens: Any = field(default_factory=lambda: count(1))

    def __repr__(self) -> str:
        return f"<Computing {len(self._open)} results>"

    def submit(
        self,
        lane: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        notify: Callable[[Any], None] | None = None,
    ) -> Computation:
        """Calls of equal `lane` keep their order."""
        computation = Computation(next(self._tokens), notify)
        self._open[computation.token] = computation
        self.effects.append(Compute(computation.token, lane, function, arguments))
        return computation

    def computed(self, token: int, result: Any) -> None:
        computation = self._open.pop(token)
        computation.is_done, computation.result = True, result
        if computation.notify is not None:
            computation.notify(result)
        else:
            self.wake(token)
