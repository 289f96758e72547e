"""Figures of a cluster that a test compares now, or waits for."""

import operator
from collections.abc import Callable
from typing import Any

Figure = int | float | None


class Measure:
    """A figure that changes. A comparison of it is a `Condition`, which is asked anew each time.

    >>> lag = cluster.lag("billing")
    >>> assert lag == 0             # now
    >>> cluster.wait_for(lag < 10)  # in the next 30 s
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, read: Callable[[], Figure]) -> None:
        self.name = name
        self._read = read

    @property
    def value(self) -> Figure:
        """The figure now."""
        return self._read()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.value}>"

    def __eq__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition(self, "==", operator.eq, other)

    def __ne__(self, other: object) -> "Condition":  # type: ignore[override]
        return Condition(self, "!=", operator.ne, other)

    def __lt__(self, other: float) -> "Condition":
        return Condition(self, "<", operator.lt, other)

    def __le__(self, other: float) -> "Condition":
        return Condition(self, "<=", operator.le, other)

    def __gt__(self, other: float) -> "Condition":
        return Condition(self, ">", operator.gt, other)

    def __ge__(self, other: float) -> "Condition":
        return Condition(self, ">=", operator.ge, other)


class Condition:
    """A comparison of a measure; its truth is that of the moment in which it is asked. An unknown figure (None) is in
    no relation to a number."""

    def __init__(self, measure: Measure, sign: str, compare: Callable[[Any, Any], bool], other: object) -> None:
        self._measure = measure
        self._sign = sign
        self._compare = compare
        self._other = other
        self._seen: Figure = None

    def __repr__(self) -> str:
        return f"<{self._measure.name} {self._sign} {self._other!r}>"

    def __bool__(self) -> bool:
        return self.holds()

    def holds(self) -> bool:
        self._seen = self._measure.value
        if self._seen is None and self._sign not in ("==", "!="):
            return False
        return self._compare(self._seen, self._other)

    def text(self) -> str:
        """What was wanted, and what was seen last."""
        return f"{self._measure.name} {self._sign} {self._other!r}; it was {self._seen!r}"
