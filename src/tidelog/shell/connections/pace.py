"""How fast connections come, from each address and from all together (KIP-612)."""

import time

from tidelog.config.broker import BrokerConfig
from tidelog.node.quotas import WindowedRate

UNLIMITED = (1 << 31) - 1
MOST_HOSTS = 10_000


class Pace:
    """Rates are measured over the windows of quota.window.num; no wait is longer than one of them."""

    def __init__(self, config: BrokerConfig) -> None:
        self._samples = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._all = WindowedRate(self._samples, self._window_ms)
        self._hosts: dict[str, WindowedRate] = {}
        self._rest_until = 0.0

    def __repr__(self) -> str:
        return f"Pace({self._all!r}, {len(self._hosts)} addresses)"

    @property
    def is_resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def of_host(self, host: str, rate: float) -> float:
        """Count a connection from this address; seconds that it waits before it is closed, 0 where it may come in."""
        meter = self._hosts.get(host)
        if meter is None:
            if len(self._hosts) >= MOST_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            meter = self._hosts[host] = WindowedRate(self._samples, self._window_ms)
        return self._wait(meter, rate, refused=True)

    def of_all(self, rate: float) -> float:
        """Count one that came in; seconds for which nothing more is accepted."""
        if rate >= UNLIMITED:
            return 0.0
        wait_s = self._wait(self._all, rate, refused=False)
        self._rest_until = time.monotonic() + wait_s
        return wait_s

    def _wait(self, meter: WindowedRate, rate: float, *, refused: bool) -> float:
        """One that is refused does not count: it never came."""
        now = time.monotonic_ns() // 1_000_000
        meter.record(1, now)
        throttle_ms = meter.throttle_ms(rate, now)
        if refused and throttle_ms > 0:
            meter.record(-1, now)
        return min(throttle_ms, self._window_ms) / 1000
