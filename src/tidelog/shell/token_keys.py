"""Fetches the keys that verify clients' access tokens (JWKS), from the files and HTTPS servers of the configuration."""

import ssl
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from urllib.parse import SplitResult

from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security.access_tokens import KeySet, providers
from tidelog.security.oauthbearer import parse_url
from tidelog.shell.token_provider import login_context, on_thread, read_file, reason, request

TIMEOUT_S = 10.0
_OPTION = "sasl.oauthbearer.jwks.endpoint.url"


class _Source(NamedTuple):
    url: SplitResult
    context: ssl.SSLContext | None
    """None for a file."""


class TokenKeySources:
    """The providers of a broker's configuration. InvalidOption if their TLS options cannot work."""

    def __init__(self, config: BrokerConfig) -> None:
        self._sources = {url: _source(url, own) for url, own in providers(config).items()}

    def __repr__(self) -> str:
        return f"TokenKeySources({', '.join(self._sources)})"

    def load(self) -> dict[str, str]:
        """All keys, by URL. InvalidOption if there are none somewhere: no client could log in."""
        found: dict[str, str] = {}
        for url, source in self._sources.items():
            try:
                found[url] = _read(source)
                KeySet(found[url])
            except (OSError, ValueError) as problem:
                raise InvalidOption(f"{_OPTION}: cannot read keys from {url}: {reason(problem)}") from None
        return found

    def fetch(self, url: str, done: Callable[[str, str, str], None]) -> None:
        """Fetch the keys of this URL on a thread, which calls `done` with the URL, the keys, and why there are none."""
        source = self._sources[url]  # never another URL than one of the configuration
        on_thread("token-keys", partial(_read, source), partial(done, url))


def _source(url: str, config: BrokerConfig) -> _Source:
    parsed = parse_url(_OPTION, url)
    return _Source(parsed, None if parsed.scheme == "file" else login_context(config.sasl_jaas_config or ""))


def _read(source: _Source) -> str:
    if source.context is not None:
        return request(source.url, source.context, timeout_s=TIMEOUT_S).decode("utf-8", "replace")
    return read_file(source.url)
