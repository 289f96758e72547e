"""Fetches the access token with which a broker logs in to others, from a file or a token endpoint."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.client.options import ClientOptions
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ApiError, InvalidOption
from tidelog.security import jaas, sasl
from tidelog.shell.token_provider import on_thread

if TYPE_CHECKING:
    from tidelog.shell.access_tokens import AccessTokens


class OwnTokenSource:
    """The provider of a broker's configuration; none where brokers do not log in to each other by OAUTHBEARER.
    InvalidOption if something is missing."""

    def __init__(self, config: BrokerConfig) -> None:
        self._tokens = _tokens_of(config)

    def __repr__(self) -> str:
        return f"OwnTokenSource({self._tokens})"

    def load(self) -> str:
        """A token; "" where none is needed. InvalidOption if there is none: this broker could not log in to others."""
        try:
            return "" if self._tokens is None else self._tokens.fetched()
        except ApiError as problem:
            raise InvalidOption(str(problem.message)) from None

    def fetch(self, done: Callable[[str, str], None]) -> None:
        """Fetch the next token on a thread, which calls `done` with it, and why there is none."""
        assert self._tokens is not None
        on_thread("own-token", self._tokens.fetched, done)


def _tokens_of(config: BrokerConfig) -> "AccessTokens | None":
    own = sasl.options_of_own_token(config)
    if own is None:
        return None
    from tidelog.shell.access_tokens import AccessTokens

    login = own.sasl_jaas_config or ""
    return AccessTokens(_as_of_client(own, login), jaas.parse(login).options)


def _as_of_client(own: BrokerConfig, login: str) -> ClientOptions:
    return ClientOptions(
        sasl_jaas_config=login,
        sasl_login_connect_timeout_ms=own.sasl_login_connect_timeout_ms,
        sasl_login_read_timeout_ms=own.sasl_login_read_timeout_ms,
        sasl_login_retry_backoff_ms=own.sasl_login_retry_backoff_ms,
        sasl_login_retry_backoff_max_ms=own.sasl_login_retry_backoff_max_ms,
        sasl_oauthbearer_token_endpoint_url=own.sasl_oauthbearer_token_endpoint_url or "",
        sasl_oauthbearer_client_credentials_client_id=own.sasl_oauthbearer_client_credentials_client_id or "",
        sasl_oauthbearer_client_credentials_client_secret=own.sasl_oauthbearer_client_credentials_client_secret or "",
        sasl_oauthbearer_scope=own.sasl_oauthbearer_scope or "",
    )
