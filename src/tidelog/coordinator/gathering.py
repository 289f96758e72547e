"""One answer from the answers of several shards.

Each part is given a token of its own, a negative number, which no request has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Combine = Callable[[Sequence[Any]], Any]


@dataclass(slots=True)
class _Gathering:
    token: int
    combine: Combine
    missing: int
    parts: list[Any] = field(default_factory=list)


class Gatherings:
    """Answers in the making."""

    def __init__(self) -> None:
        self._parts: dict[int, tuple[_Gathering, int]] = {}
        self._tokens = count(-1, -1)

    def __repr__(self) -> str:
        return f"<Gatherings {len(self)} parts missing>"

    def __len__(self) -> int:
        return len(self._parts)

    def open(self, token: int, parts: int, combine: Combine) -> list[int]:
        """Tokens for so many parts, at least one; `combine` gets the parts in this order."""
        assert parts > 0
        gathering = _Gathering(token, combine, parts, [None] * parts)
        tokens = [next(self._tokens) for _ in range(parts)]
        for place, part in enumerate(tokens):
            self._parts[part] = (gathering, place)
        return tokens

    def take(self, part: int, response: Any) -> tuple[int, Any] | None:
        """Note one part; token and answer once none is missing."""
        gathering, place = self._parts.pop(part)
        gathering.parts[place] = response
        gathering.missing -= 1
        if gathering.missing:
            return None
        return gathering.token, gathering.combine(gathering.parts)
