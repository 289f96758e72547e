"""A follower's progress in the view of its leader, and the arithmetic on it. Pure: imports nothing of Tidelog."""

from collections.abc import Iterable
from dataclasses import dataclass

UNKNOWN = -1
LONG_AGO = -(2**62)
"""`caught_up_at` of a replica that was never caught up in this epoch: before any lag time."""


@dataclass(slots=True)
class Progress:
    """One remote replica in one leader epoch. Times are monotonic milliseconds.

    `log_end_offset` is the fetch offset of its last fetch (the remote LEO), UNKNOWN before the first in this epoch.
    `caught_up_at` is the last moment at which its LEO equalled the leader's.
    """

    caught_up_at: int
    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    broker_epoch: int = -1
    _fetched_at: int = LONG_AGO
    _leader_end_at_fetch: int = 0

    def fetched(self, offset: int, log_start: int, leader_end: int, broker_epoch: int, now: int) -> None:
        """A fetch at `offset` arrived: everything below it is in that replica's log.

        A replica that reaches the end the leader had at the previous fetch was caught up then: one that keeps up with
        a steady stream is never quite at the end.
        """
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self._leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self._fetched_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start
        self.broker_epoch = broker_epoch
        self._fetched_at = now
        self._leader_end_at_fetch = leader_end

    def leader_appended(self, old_end: int, now: int) -> None:
        """The leader's end moves on from `old_end`: whoever stood there was caught up until now.

        This makes refreshing the times of idle replicas unnecessary.
        """
        if self.log_end_offset == old_end:
            self.caught_up_at = max(self.caught_up_at, now)
            self._fetched_at = now
            self._leader_end_at_fetch = old_end

    def is_caught_up(self, leader_end: int, now: int, lag_ms: int) -> bool:
        return self.log_end_offset == leader_end or now - self.caught_up_at <= lag_ms


def committed_offset(high_watermark: int, leader_end: int, others: Iterable[int]) -> int:
    """Rule 1: max(HW, min(LEO of the leader and of all who count))."""
    return max(high_watermark, min(leader_end, min(others, default=leader_end)))
