"""Client quotas (KIP-13, 124, 219, 599): which quota applies to a client, its rate, and the throttle time.

The most specific quota applies, in Kafka's order. Clients that share a quota are counted together: a user's quota
applies to all its clients, a client ID's to all users without their own. A request over the quota is served all the
same: the answer has the throttle time (`WindowedRate.throttle_ms`), in which its connection is muted (KIP-219) and the
rate falls back to the quota. Only controller mutations are refused (KIP-599). Without quotas nothing is counted.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.config.quotas import CLIENT_ID, FETCH, IP, MUTATION, PRODUCE, REQUEST, USER, Entity
from tidelog.model import canonical_host

_ABSENT = ""
"""The name of a type that an entity does not have; real names are never empty."""

MAX_CACHED_LIMITS = 10_000
"""Clients choose their ids, so the cache of lookups must be bounded."""


_Client = tuple[str | None, str | None]
_NOTHING: Mapping[str, float] = {}


class Limit(NamedTuple):
    """A bound, and who is counted together under it."""

    bound: float
    shared_by: tuple[str, str]


class Limits:
    """`of(quota, user, client)` for users and clients, `rates` for addresses."""

    def __init__(self, quotas: Iterable[tuple[Entity, Mapping[str, float]]] = ()) -> None:
        self._bounds: dict[_Client, dict[str, float]] = {}
        self.rates: dict[str | None, float] = {}
        """Connections per second by address, None for the default of all."""
        self._found: dict[tuple[str, str, str], Limit | None] = {}
        self.names = frozenset[str]()
        """The names of the quotas that are set."""
        self._counts: Counter[str] = Counter()
        """How many entities have each of them."""
        self._spellings: dict[str | None, dict[str | None, float]] = {}
        """By address: the same one may be written in several ways."""
        for entity, values in quotas:
            self.change(entity, values)

    def change(self, entity: Entity, values: Mapping[str, float]) -> None:
        """Replace the quotas of one entity, without looking at others."""
        if IP in entity:
            self._change_rate(entity[IP], values)
            return
        client = (entity.get(USER, _ABSENT), entity.get(CLIENT_ID, _ABSENT))
        self._counts.subtract(self._bounds.pop(client, {}).keys())
        if values:
            self._bounds[client] = dict(values)
            self._counts.update(values.keys())
        self.names = frozenset(name for name, count in self._counts.items() if count)
        self._found.clear()

    def _change_rate(self, named: str | None, values: Mapping[str, float]) -> None:
        address = named and canonical_host(named)
        spellings = self._spellings.setdefault(address, {})
        spellings.pop(named, None)
        spellings.update((named, bound) for bound in values.values())
        if spellings:
            self.rates[address] = next(reversed(spellings.values()))
        else:
            self.rates.pop(address, None)
            del self._spellings[address]

    def __repr__(self) -> str:
        return f"<Limits {len(self._bounds)} of clients, {len(self.rates)} of addresses>"

    def of(self, name: str, user: str, client: str) -> Limit | None:
        key = (name, user, client)
        if key not in self._found:
            if len(self._found) >= MAX_CACHED_LIMITS:
                self._found.clear()
            self._found[key] = self._search(*key)
        return self._found[key]

    def _search(self, name: str, user: str, client: str) -> Limit | None:
        for by_user, by_client, shared_by in (
            (user, client, (user, client)),
            (user, None, (user, client)),
            (user, _ABSENT, (user, "")),
            (None, client, (user, client)),
            (None, None, (user, client)),
            (None, _ABSENT, (user, "")),
            (_ABSENT, client, ("", client)),
            (_ABSENT, None, ("", client)),
        ):
            if (bound := self._bounds.get((by_user, by_client), _NOTHING).get(name)) is not None:
                return Limit(bound, shared_by)
        return None


class WindowedRate:
    """What was recorded in the last `samples` windows, per second, as in Kafka.

    Before that many windows have passed, the missing ones count as empty: a first burst is not a rate yet.
    """

    __slots__ = ("_samples", "_window_ms", "_windows")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._windows: deque[list[float]] = deque()
        """[start, sum] of each window that still counts, the oldest first."""

    def __repr__(self) -> str:
        return f"WindowedRate({sum(total for _, total in self._windows):g} in {len(self._windows)} windows)"

    def record(self, value: float, now: int) -> None:
        windows = self._windows
        if not windows or now - windows[-1][0] >= self._window_ms:
            self._forget(now)
            windows.append([now, 0.0])
        windows[-1][1] += value

    def throttle_ms(self, bound: float, now: int) -> int:
        """How long nothing must be added until the rate is back at `bound` per second; 0 if it is not above it."""
        self._forget(now)
        if not self._windows:
            return 0
        span_ms = self._span(now)
        rate = sum(total for _, total in self._windows) * 1000 / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _span(self, now: int) -> int:
        """The time over which the rate is measured: at least all windows but the current one."""
        elapsed = now - int(self._windows[0][0])
        missing = self._samples - 1 - elapsed // self._window_ms
        return max(elapsed + max(0, missing) * self._window_ms, self._window_ms)

    def _forget(self, now: int) -> None:
        horizon = now - self._samples * self._window_ms
        while self._windows and self._windows[0][0] <= horizon:
            self._windows.popleft()


class TokenBucket:
    """Gains `rate` tokens per second, up to `capacity`. More tokens than there are can be taken: that leaves a debt."""

    __slots__ = ("_at", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, capacity: float, now: int) -> None:
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._at = now

    def __repr__(self) -> str:
        return f"TokenBucket({self._tokens:g} of {self.capacity:g}, {self.rate:g}/s)"

    def take(self, tokens: float, now: int) -> None:
        self._refill(now)
        self._tokens -= tokens

    def throttle_ms(self, now: int) -> int:
        """How long until the debt is paid; 0 if there is none."""
        self._refill(now)
        return round(-self._tokens / self.rate * 1000) if self._tokens < 0 else 0

    def _refill(self, now: int) -> None:
        self._tokens = min(self.capacity, self._tokens + (now - self._at) / 1000 * self.rate)
        self._at = now


PRODUCE_KEY, FETCH_KEY = 0, 1
MAX_METERS = 10_000
"""Above it the oldest meter is evicted, which forgets what one client has used."""

Meter = tuple[str, tuple[str, str]]


class Quotas:
    """`are_set`: whether any client has a quota. `stopwatch` returns nanoseconds, to measure work with."""

    def __init__(self, config: BrokerConfig, stopwatch: Callable[[], int]) -> None:
        self.are_set = False
        self.stopwatch = stopwatch
        self.limits = Limits()
        self._samples = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._burst_s = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._rates: dict[Meter, WindowedRate] = {}
        self._buckets: dict[Meter, TokenBucket] = {}

    def __repr__(self) -> str:
        return f"<Quotas {self.limits} {len(self._rates)} rates, {len(self._buckets)} buckets>"

    def change(self, entity: Entity, quotas: Mapping[str, float]) -> None:
        """Replace the quotas of one entity. What was counted stays counted."""
        self.limits.change(entity, quotas)
        self.are_set = bool(self.limits.names)

    def record_request(
        self, user: str, client: str, key: int, *, size: int, answer: int, spent_ns: int, now: int
    ) -> int:
        """Count one request; the milliseconds for which its connection is muted."""
        throttle_ms = self._record(REQUEST, user, client, spent_ns / 1e7, now)  # percent of a second
        throttle_ms = min(throttle_ms, self._window_ms)
        if key == PRODUCE_KEY:
            throttle_ms = max(throttle_ms, self._record(PRODUCE, user, client, size, now))
        elif key == FETCH_KEY:
            throttle_ms = max(throttle_ms, self._record(FETCH, user, client, answer, now))
        return throttle_ms

    def max_fetch_bytes(self, user: str, client: str) -> int | None:
        """Bytes in one answer that do not lead to a throttle by themselves; None without a quota."""
        limit = self.limits.of(FETCH, user, client)
        return None if limit is None else int(limit.bound * (self._samples - 1) * self._window_ms / 1000)

    def record_mutation(self, user: str, client: str, cost: float, now: int, *, strict: bool) -> tuple[bool, int]:
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

    def _record(self, name: str, user: str, client: str, value: float, now: int) -> int:
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
    """Evict the oldest one."""
    if len(meters) >= MAX_METERS:
        del meters[next(iter(meters))]
