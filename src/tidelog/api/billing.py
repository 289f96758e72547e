"""What one request of a client with quotas costs: kept beside the request until it is answered."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Bill:
    """`user` and `client_id` say whose quotas it is counted against. `started` is the stopwatch's time (nanoseconds) at
    the beginning of its handling, `spent_ns` what that took where the answer came later. `throttle_ms`: at least that
    long its connection is muted. `finish` completes the answer."""

    user: str
    client_id: str
    size: int
    started: int
    spent_ns: int = -1
    throttle_ms: int = 0
    finish: Callable[[Any], None] | None = None


def user_of(principal: str) -> str:
    """The name that quotas are set on: `alice` of `User:alice`."""
    return principal.partition(":")[2] or principal
