"""How fast somebody is: a rate over some windows of time, and a bucket of tokens. Kafka's arithmetic."""

from collections import deque


class WindowedRate:
    """What was recorded within the last `samples` windows, per second.

    Windows that have not been yet count as empty ones, so that a burst at the beginning is not taken for a rate.
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
        """How long nothing may be added until the rate is back at `bound` per second; 0 where it is not above it."""
        self._forget(now)
        if not self._windows:
            return 0
        span_ms = self._span(now)
        rate = sum(total for _, total in self._windows) * 1000 / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _span(self, now: int) -> int:
        """The time over which is measured: at least all windows but the present one."""
        elapsed = now - int(self._windows[0][0])
        missing = self._samples - 1 - elapsed // self._window_ms
        return max(elapsed + max(0, missing) * self._window_ms, self._window_ms)

    def _forget(self, now: int) -> None:
        horizon = now - self._samples * self._window_ms
        while self._windows and self._windows[0][0] <= horizon:
            self._windows.popleft()


class TokenBucket:
    """Tokens that come in at `rate` per second, up to `most`; taking more than there are leaves a debt."""

    __slots__ = ("_at", "_tokens", "most", "rate")

    def __init__(self, rate: float, most: float, now: int) -> None:
        self.rate = rate
        self.most = most
        self._tokens = most
        self._at = now

    def __repr__(self) -> str:
        return f"TokenBucket({self._tokens:g} of {self.most:g}, {self.rate:g}/s)"

    def take(self, tokens: float, now: int) -> None:
        self._refill(now)
        self._tokens -= tokens

    def throttle_ms(self, now: int) -> int:
        """How long until the debt is paid; 0 where there is none."""
        self._refill(now)
        return round(-self._tokens / self.rate * 1000) if self._tokens < 0 else 0

    def _refill(self, now: int) -> None:
        self._tokens = min(self.most, self._tokens + (now - self._at) / 1000 * self.rate)
        self._at = now
