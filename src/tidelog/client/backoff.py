"""How long to wait before a retry: the wait doubles from the first to the longest, with a random spread of 20 %, so
that clients that failed together do not retry together."""

from collections.abc import Callable

Entropy = Callable[[int], bytes]
"""Returns the given number of random bytes."""


class Backoff:
    """The waits between retries of one operation; `entropy` is the client's source of randomness."""

    def __init__(self, first_ms: int, longest_ms: int, entropy: Entropy) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self._entropy = entropy
        self.failures = 0

    def __repr__(self) -> str:
        return f"<Backoff after {self.failures} failures>"

    def next_ms(self) -> int:
        """The wait after one more failure."""
        wait = min(self._first_ms << min(self.failures, 20), self._longest_ms)
        self.failures += 1
        return wait * (80 + self._entropy(1)[0] * 40 // 255) // 100

    def succeeded(self) -> None:
        self.failures = 0


def below(entropy: Entropy, bound: int) -> int:
    """A random number below `bound`."""
    return int.from_bytes(entropy(4)) % bound
