"""The access tokens with which a client logs in by OAUTHBEARER: from a file, or from a provider's token endpoint by the
client credentials grant (RFC 6749), as Kafka's clients get them.

A token of an endpoint is used for 80 % of its time, for all connections of the client; a file is read each time.
"""

import json
import time
from base64 import b64encode
from collections.abc import Mapping
from threading import Lock
from urllib.parse import quote_plus, urlencode

from tidelog.client.options import ClientOptions
from tidelog.errors import ApiError, ErrorCode, InvalidOption
from tidelog.security.oauthbearer import USED_FOR, expires_at, parse_url
from tidelog.shell.token_provider import HttpError, login_context, read_file, reason, request

URL = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials."
_TIMEOUT_MS = 10_000
_FIRST_PERMANENT, _FIRST_TRANSIENT = 400, 500


class AccessTokens:
    """`login` are the options of the JAAS login, in which Kafka's clients had the credentials before 4.2."""

    def __init__(self, options: ClientOptions, login: Mapping[str, str]) -> None:
        """InvalidOption if something is missing."""
        if not options.sasl_oauthbearer_token_endpoint_url:
            raise InvalidOption(f"{URL} is needed for sasl.mechanism OAUTHBEARER")
        self._options = options
        self._url = parse_url(URL, options.sasl_oauthbearer_token_endpoint_url)
        self._lock = Lock()
        self._token = ""
        self._fresh_until = 0.0
        if self._url.scheme == "file":
            return
        self._id = options.sasl_oauthbearer_client_credentials_client_id or login.get("clientId", "")
        self._secret = options.sasl_oauthbearer_client_credentials_client_secret or login.get("clientSecret", "")
        self._scope = options.sasl_oauthbearer_scope or login.get("scope", "")
        for name, value in (("client.id", self._id), ("client.secret", self._secret)):
            if not value.strip():
                raise InvalidOption(f"{CREDENTIALS}{name} is needed for {URL} {self._url.geturl()}")
        self._context = login_context(options.sasl_jaas_config)

    def __repr__(self) -> str:
        return f"AccessTokens({self._url.geturl()})"

    def token(self) -> str:
        """A token to log in with now. ApiError if there is none."""
        with self._lock:
            now = time.time()
            if self._url.scheme == "file" or now >= self._fresh_until:
                self._token = self.fetched()
                self._fresh_until = now + USED_FOR * max(expires_at(self._token) / 1000 - now, 0)
            return self._token

    def fetched(self) -> str:
        """The token that there is now. ApiError if there is none."""
        return self._from_file() if self._url.scheme == "file" else self._requested()

    def _from_file(self) -> str:
        try:
            return _checked(read_file(self._url))
        except (OSError, ValueError) as problem:
            raise self._no_token(reason(problem)) from None

    def _requested(self) -> str:
        """The answer of the endpoint; requested again while it may only be unavailable."""
        backoff_ms, waited_ms = self._options.sasl_login_retry_backoff_ms, 0
        while True:
            try:
                answer = json.loads(self._post())
                return _checked(answer["access_token"])
            except (ValueError, LookupError, TypeError):
                raise self._no_token("its answer has no access_token") from None
            except OSError as problem:
                permanent = isinstance(problem, HttpError) and _FIRST_PERMANENT <= problem.status < _FIRST_TRANSIENT
                if permanent or waited_ms + backoff_ms > self._options.sasl_login_retry_backoff_max_ms:
                    raise self._no_token(reason(problem)) from None
            time.sleep(backoff_ms / 1000)
            waited_ms += backoff_ms
            backoff_ms = max(2 * backoff_ms, 1)

    def _post(self) -> bytes:
        options = self._options
        names = self._id.strip(), self._secret.strip()
        if options.sasl_oauthbearer_header_urlencode:
            names = quote_plus(names[0]), quote_plus(names[1])
        scope = {"scope": self._scope.strip()} if self._scope.strip() else {}
        timeout_ms = options.sasl_login_read_timeout_ms or options.sasl_login_connect_timeout_ms or _TIMEOUT_MS
        return request(
            self._url,
            self._context,
            timeout_s=timeout_ms / 1000,
            body=urlencode({"grant_type": "client_credentials", **scope}).encode(),
            headers={
                "Authorization": f"Basic {b64encode(':'.join(names).encode()).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
                "Cache-Control": "no-cache",
            },
        )

    def _no_token(self, why: str) -> ApiError:
        return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{URL}: no token from {self._url.geturl()}: {why}")


def _checked(token: str) -> str:
    """ValueError unless it can be sent."""
    token = token.strip()
    if not token or not token.isascii() or any(character <= " " for character in token):
        raise ValueError("it is not a token")
    return token
