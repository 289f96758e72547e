"""What requests cost, counted against the quotas of their clients, and for how long who is over it is not heard.

A request over the quota is carried out all the same: its answer says for how long its connection is muted (KIP-219),
and that time brings the rate back to the quota. Only mutations of the controller are refused (KIP-599).
"""

from collections.abc import Callable, Iterable, Mapping

from tidelog.config.broker import BrokerConfig
from tidelog.config.quotas import FETCH, MUTATION, PRODUCE, REQUEST, Entity
from tidelog.node.quotas.limits import Limit, Limits
from tidelog.node.quotas.rates import TokenBucket, WindowedRate

PRODUCE_KEY, FETCH_KEY = 0, 1
MOST_METERS = 10_000
"""Meters that are kept: who has been silent for longer than the windows is as good as new."""

Meter = tuple[str, tuple[str, str]]


class Quotas:
    """`watching`: whether any client has a quota. `stopwatch` tells a time in nanoseconds, to measure work with."""

    def __init__(self, config: BrokerConfig, stopwatch: Callable[[], int]) -> None:
        self.watching = False
        self.stopwatch = stopwatch
        self.limits = Limits(())
        self._samples = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._burst_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._rates: dict[Meter, WindowedRate] = {}
        self._buckets: dict[Meter, TokenBucket] = {}

    def __repr__(self) -> str:
        return f"<Quotas {self.limits} {len(self._rates)} rates, {len(self._buckets)} buckets>"

    def change(self, quotas: Iterable[tuple[Entity, Mapping[str, float]]]) -> None:
        """What was counted stays counted."""
        self.limits = Limits(quotas)
        self.watching = bool(self.limits.names)

    def charge(self, user: str, client: str, key: int, *, size: int, answer: int, spent_ns: int, now: int) -> int:
        """Count one request; the milliseconds for which its connection is muted."""
        throttle_ms = self._count(REQUEST, user, client, spent_ns / 1e7, now)  # percent of a second
        throttle_ms = min(throttle_ms, self._window_ms)
        if key == PRODUCE_KEY:
            throttle_ms = max(throttle_ms, self._count(PRODUCE, user, client, size, now))
        elif key == FETCH_KEY:
            throttle_ms = max(throttle_ms, self._count(FETCH, user, client, answer, now))
        return throttle_ms

    def most_to_fetch(self, user: str, client: str) -> int | None:
        """Bytes in one answer that do not lead to a throttle by themselves; None without a quota."""
        limit = self.limits.of(FETCH, user, client)
        return None if limit is None else int(limit.bound * (self._samples - 1) * self._window_ms / 1000)

    def mutate(self, user: str, client: str, cost: float, now: int, *, strict: bool) -> tuple[bool, int]:
        """(whether it may be done, milliseconds to wait). `strict`: nothing may be done while there is a debt."""
        limit = self.limits.of(MUTATION, user, client)
        if limit is None:
            return True, 0
        bucket = self._bucket(limit, now)
        if strict:
            wait_ms = bucket.throttle_ms(now)
            if wait_ms == 0:
                bucket.take(cost, now)
            return wait_ms == 0, wait_ms
        bucket.take(cost, now)
        return True, bucket.throttle_ms(now)

    def _count(self, name: str, user: str, client: str, value: float, now: int) -> int:
        limit = self.limits.of(name, user, client) if name in self.limits.names else None
        if limit is None:
            return 0
        meter = (name, limit.shared_by)
        rate = self._rates.get(meter)
        if rate is None:
            _make_room(self._rates)
            rate = self._rates[meter] = WindowedRate(self._samples, self._window_ms)
        rate.record(value, now)
        return rate.throttle_ms(limit.bound, now)

    def _bucket(self, limit: Limit, now: int) -> TokenBucket:
        meter = (MUTATION, limit.shared_by)
        bucket = self._buckets.get(meter)
        if bucket is None or bucket.rate != limit.bound:
            _make_room(self._buckets)
            bucket = self._buckets[meter] = TokenBucket(limit.bound, limit.bound * self._burst_s, now)
        return bucket


def _make_room(meters: dict[Meter, WindowedRate] | dict[Meter, TokenBucket]) -> None:
    """The one that was made first goes."""
    if len(meters) >= MOST_METERS:
        del meters[next(iter(meters))]
