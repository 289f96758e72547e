"""Who is at the other end of a connection on a SASL listener: SaslHandshake (17) and SaslAuthenticate (36).

- Until a connection is authenticated only ApiVersions, once, and these two are decoded, in frames of at most
  sasl.server.max.receive.size; everything else closes it without an answer. The size counts again while a client
  authenticates again.
- A refusal is answered after connection.failed.authentication.delay.ms, then the connection is closed.
- With connections.max.reauth.ms, and where its token expires, a client authenticates again on the same connection
  (KIP-368), with the same mechanism and as the same user; a request after its session has ended closes the connection.
- After SaslHandshake v0 the tokens come in bare frames, and are answered so.
"""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from struct import Struct

from tidelog.api.context import Context
from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.effects import Close, Deferred, Effect, Event, Send, SetFrameLimit
from tidelog.errors import ErrorCode
from tidelog.model import Time
from tidelog.security.access_tokens import FindKey
from tidelog.security.sasl import Exchange, Failed, LoggedIn, SaslListener, Side, among_nodes, client
from tidelog.security.scram import Account
from tidelog.wire.codec import API_VERSIONS
from tidelog.wire.messages.security.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

HANDSHAKE, AUTHENTICATE = 17, 36
BEFORE = (API_VERSIONS, HANDSHAKE, AUTHENTICATE)
"""What may be asked before authentication."""

_KEY = Struct(">h")
_LENGTH = Struct(">i")


class Authentication:
    """The state of one connection on a SASL listener. `principal` is "" until somebody has authenticated."""

    def __init__(self, number: int, peer: str, listener: SaslListener, effects: list[Effect], frame_limit: int) -> None:
        self.principal = ""
        self.ends_at: int | None = None
        """When the session ends (monotonic ms), if the client must authenticate again."""
        self.by_token = False
        """Whether it was a delegation token that authenticated the client."""
        self.refusal: Deferred | None = None
        """Of a bare token: closes the connection later."""
        self._number = number
        self._peer = peer
        self._listener = listener
        self._effects = effects
        self._frame_limit = frame_limit
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._failure: Failed | None = None
        """The client is refused as soon as it has replied to the challenge of this."""
        self._bare = False
        self._asked_versions = False
        self._over = False

    def __repr__(self) -> str:
        return f"Authentication({self.principal or 'nobody yet'}{', over' if self._over else ''})"

    def admits(self, frame: memoryview, now: Time) -> bool:
        """Whether this frame may be served. A bare token is taken here; what may not be is followed by a Close."""
        if self._over:
            return False
        if self._exchange is not None and len(frame) > self._listener.max_receive_size:
            return self._end(f"a frame of {len(frame)} bytes during an authentication")
        if self._bare:
            self._take_bare(bytes(frame), now)
            return False
        key = _KEY.unpack_from(frame)[0] if len(frame) >= _KEY.size else -1
        if self.principal:
            if key in BEFORE or self.ends_at is None or now.mono < self.ends_at:
                return True
            return self._end(f"the session of {self.principal} is over, and it did not authenticate again")
        if key not in BEFORE or (key == API_VERSIONS and self._asked_versions):
            return self._end(f"API key {key} before authentication")
        self._asked_versions |= key == API_VERSIONS
        return True

    def _end(self, reason: str) -> bool:
        self._over = True
        self._effects.append(Close(self._number, reason))
        return False

    def handshake(self, request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
        """Choose a mechanism."""
        mechanisms = list(self._listener.mechanisms)
        if self.principal and self.ends_at is None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if request.mechanism not in mechanisms:
            self._end(f"SASL mechanism {request.mechanism!r} is not enabled")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        if self.principal and request.mechanism != self._mechanism:
            self._end("another SASL mechanism than before")
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if self.principal:
            self._effects.append(SetFrameLimit(self._number, self._listener.max_receive_size))
        self._mechanism = request.mechanism
        self._exchange = self._listener.exchange(request.mechanism)
        self._bare = context.version == 0
        return SaslHandshakeResponse(mechanisms=mechanisms)

    def authenticate(self, request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse | Deferred:
        """Take the client's next token."""
        if self._exchange is None and self._failure is None:
            if not self.principal:
                self._end("SaslAuthenticate before SaslHandshake")
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication"
                if self.principal
                else "SaslHandshake must come first",
            )
        try:
            token = self._advance(bytes(request.auth_bytes), context.now)
        except Failed as failed:
            self._over = True
            refusal = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(failed)
            )
            due = context.now.mono + self._listener.failure_delay_ms
            return Deferred((), due, _refuse, (refusal, self._number))
        ends_at = self.ends_at if self._exchange is None and self._failure is None else None
        lifetime_ms = 0 if ends_at is None else ends_at - context.now.mono
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=lifetime_ms)

    def _advance(self, token: bytes, now: Time) -> bytes:
        """The server's answer to this token; Failed where it refuses the client."""
        if self._failure is not None:
            raise self._failure
        assert self._exchange is not None
        try:
            return self._exchange.send(token)
        except StopIteration as end:
            login: LoggedIn = end.value
        except Failed as failed:
            self._exchange = None
            self._report(failed.reason)
            if not failed.challenge:
                raise
            self._failure = failed
            return failed.challenge
        self._exchange = None
        principal = f"User:{login.user}"
        if self.principal and self.principal != principal:
            refusal = (
                "Cannot change principals during re-authentication from "
                f"{self.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
            self._report(refusal)
            raise Failed(refusal)
        self._effects.append(SetFrameLimit(self._number, self._frame_limit))
        self.principal, self.by_token = principal, login.by_token
        self.ends_at = self._session_end(login, now)
        return login.answer

    def _session_end(self, login: LoggedIn, now: Time) -> int | None:
        """When the session ends, by the listener's option or because what the client has shown expires."""
        longest_ms = self._listener.max_reauth_ms[self._mechanism]
        lifetimes = [longest_ms] if longest_ms > 0 else []
        if login.expires_at is not None:
            lifetimes.append(max(0, login.expires_at - now.wall))
        return now.mono + min(lifetimes) if lifetimes else None

    def _take_bare(self, token: bytes, now: Time) -> None:
        try:
            answer = self._advance(token, now)
        except Failed:
            self._over = True
            self.refusal = Deferred((), now.mono + self._listener.failure_delay_ms, _refuse, (None, self._number))
            return
        self._bare = self._exchange is not None or self._failure is not None
        self._effects.append(Send(self._number, [_LENGTH.pack(len(answer)) + answer]))

    def _report(self, reason: str) -> None:
        fields = {"peer": self._peer, "mechanism": self._mechanism, "reason": reason}
        self._effects.append(Event("connection.authentication_failed", fields))


def _refuse(context: Context, refusal: SaslAuthenticateResponse | None, number: int) -> SaslAuthenticateResponse | None:
    """The answer, which a bare token does not get, and the end of the connection."""
    context.effects.append(Close(number, "authentication failed"))
    return refusal


def sasl_listeners(
    config: BrokerConfig,
    accounts: Callable[[str, str, str, bool], Account | None],
    entropy: Callable[[int], bytes],
    secret: bytes,
    find_key: FindKey,
    now: Callable[[], int],
) -> Mapping[str, SaslListener]:
    """By name, those of the broker's listeners that have SASL. `accounts` is as in `sasl.Accounts`, with the listener
    first."""
    return {
        each.listener: SaslListener(
            listeners.options_of(config, each.listener),
            partial(accounts, each.listener),
            entropy,
            secret,
            find_key=find_key,
            now=now,
        )
        for each in listeners.opened(config)
        if each.security.startswith("SASL")
    }


def sasl_logins(
    config: BrokerConfig, entropy: Callable[[int], bytes], own_token: Callable[[], str]
) -> dict[str, Callable[[], tuple[str, Generator[bytes, bytes, None]]]]:
    """How this node logs in to others (`sasl.client`), by the listener that it reaches them by; none without SASL."""
    return {name: partial(_log_in, side, entropy, own_token) for name, side in among_nodes(config).items()}


def _log_in(
    side: Side, entropy: Callable[[int], bytes], own_token: Callable[[], str]
) -> tuple[str, Generator[bytes, bytes, None]]:
    return client(side, entropy, own_token())
