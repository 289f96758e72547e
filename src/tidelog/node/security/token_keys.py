"""The keys that verify clients' access tokens, by the URL of their provider, and when they are fetched again.

They are fetched before the broker starts, every `sasl.oauthbearer.jwks.endpoint.refresh.ms`, and when a token names an
unknown key, which a provider may have added; at most every `MISSED_EVERY_MS`, because a client can name any. If that
fails, the keys stay as they are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.alarms import Alarm
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Effect, Event, FetchKeys
from tidelog.model import Time, earliest
from tidelog.security.access_tokens import KeySet, providers

if TYPE_CHECKING:
    from jwt import PyJWK

MISSED_EVERY_MS = 10_000
_MOST_DOUBLINGS = 30


@dataclass(slots=True)
class _Provider:
    options: BrokerConfig
    keys: KeySet
    due: int | None = None
    """When the keys are fetched (monotonic ms); None while they are."""
    missed_at: int | None = None
    """When they were last fetched because of an unknown key."""
    failures: int = 0


class TokenKeys:
    """`given` are the fetched keys (JWKS) by URL. ValueError if there are none in them."""

    def __init__(
        self, config: BrokerConfig, given: Mapping[str, str], effects: list[Effect], now: Callable[[], Time]
    ) -> None:
        self._providers = {url: _Provider(own, KeySet(given[url])) for url, own in providers(config).items()}
        self._effects = effects
        self._now = now
        self.alarm = Alarm()

    def __repr__(self) -> str:
        return f"<TokenKeys of {len(self._providers)} providers>"

    def start(self, now: Time) -> None:
        for provider in self._providers.values():
            provider.due = now.mono + provider.options.sasl_oauthbearer_jwks_endpoint_refresh_ms
        self.alarm.set(self.next_deadline)

    def find(self, url: str, key_id: str | None, algorithm: str) -> "PyJWK | None":
        """The key; None if it is unknown, which it may be for a moment only."""
        provider = self._providers[url]
        key = provider.keys.find(key_id, algorithm)
        if key is None and key_id is not None and provider.due is not None:
            now = self._now().mono
            if provider.missed_at is None or now >= provider.missed_at + MISSED_EVERY_MS:
                provider.due = provider.missed_at = now
                self.alarm.set(self.next_deadline)
        return key

    def wake(self, now: Time) -> None:
        for url, provider in self._providers.items():
            if provider.due is not None and provider.due <= now.mono:
                provider.due = None
                self._effects.append(FetchKeys(url))
        self.alarm.set(self.next_deadline)

    def fetched(self, url: str, text: str, problem: str, now: Time) -> None:
        """The answer to FetchKeys: the keys, or why there are none."""
        provider = self._providers[url]
        try:
            if problem:
                raise ValueError(problem)
            provider.keys = KeySet(text)
        except ValueError as reason:
            self._effects.append(Event("tokens.keys_not_fetched", {"url": url, "reason": str(reason)}, level="error"))
            options = provider.options
            backoff_ms = options.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms << min(
                provider.failures, _MOST_DOUBLINGS
            )
            provider.failures += 1
            provider.due = now.mono + min(backoff_ms, options.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms)
        else:
            provider.failures = 0
            provider.due = now.mono + provider.options.sasl_oauthbearer_jwks_endpoint_refresh_ms
        self.alarm.set(self.next_deadline)

    @property
    def next_deadline(self) -> int | None:
        return earliest(*(provider.due for provider in self._providers.values()))
