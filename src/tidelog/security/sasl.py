"""One SASL exchange: PLAIN (RFC 4616), SCRAM and OAUTHBEARER, as the server and as the client."""

import hmac
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security import access_tokens, jaas, oauthbearer, scram
from tidelog.security.oauthbearer import MECHANISM as OAUTHBEARER

PLAIN = "PLAIN"
SUPPORTED = (PLAIN, *scram.MECHANISMS, OAUTHBEARER)
MODULES = {
    PLAIN: "plain.PlainLoginModule",
    **dict.fromkeys(scram.MECHANISMS, "scram.ScramLoginModule"),
    OAUTHBEARER: "oauthbearer.OAuthBearerLoginModule",
}
"""The Java class in a mechanism's JAAS login, after `org.apache.kafka.common.security.`."""

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_HANDLERS = frozenset(f"{_PACKAGE}.{old}OAuthBearerValidatorCallbackHandler" for old in ("", "secured."))
"""Kafka's classes that verify tokens, in 4 and before. Their names are accepted; no class is loaded."""
_LOGIN_HANDLERS = frozenset(f"{_PACKAGE}.{old}OAuthBearerLoginCallbackHandler" for old in ("", "secured."))
_RETRIEVERS = frozenset(f"{_PACKAGE}.{kind}JwtRetriever" for kind in ("Default", "File", "ClientCredentials"))
"""Kafka's classes that fetch tokens; the URL decides how. Not among them: JwtBearerJwtRetriever, with assertions."""

_NOT_DURING = "Authentication failed during authentication due to {0}"
_OTHER_ID = "Authentication failed: Client requested an authorization id that is different from"

Accounts = Callable[[str, str, bool], scram.Account | None]
"""(mechanism, name, whether it is the name of a delegation token) → whom it logs in, by SCRAM."""


class LoggedIn(NamedTuple):
    """The end of an exchange: who the client is, and the server's last answer. What the client has shown expires at
    `expires_at` (wall clock); `by_token`: it was a delegation token."""

    user: str
    answer: bytes = b""
    expires_at: int | None = None
    by_token: bool = False


Exchange = Generator[bytes, bytes, LoggedIn]


class Failed(Exception):
    """The client is refused; the message is for it, `reason` for the log, and neither holds a secret. With `challenge`
    the client is answered this first, and refused when it has replied to it."""

    def __init__(self, message: str, *, reason: str = "", challenge: bytes = b"") -> None:
        super().__init__(message)
        self.reason = reason or message
        self.challenge = challenge


class SaslListener:
    """What a listener's SASL connections share: mechanisms, PLAIN's users, and a secret for users that do not exist."""

    def __init__(
        self,
        config: BrokerConfig,
        accounts: Accounts,
        entropy: Callable[[int], bytes],
        secret: bytes = b"",
        *,
        find_key: access_tokens.FindKey = lambda *_: None,
        now: Callable[[], int] = lambda: 0,
    ) -> None:
        """`config` is that of the listener (`BrokerConfig.of_listener`). `secret` is the cluster's: with one for each
        broker, a user that does not exist would be known by its salts, which differ. `now` is the wall clock (ms)."""
        self.mechanisms: Sequence[str] = config.sasl_enabled_mechanisms
        self.max_reauth_ms = {name: config.of_mechanism(name).connections_max_reauth_ms for name in self.mechanisms}
        self.max_receive_size = config.sasl_server_max_receive_size
        self.failure_delay_ms = config.connection_failed_authentication_delay_ms
        self._accounts = accounts
        self._entropy = entropy
        self.secret = secret or entropy(32)
        self._passwords = _login(config, PLAIN).users if PLAIN in self.mechanisms else {}
        self._verifier = (
            access_tokens.Verifier(config.of_mechanism(OAUTHBEARER)) if OAUTHBEARER in self.mechanisms else None
        )
        self._find_key = find_key
        self._now = now

    def __repr__(self) -> str:
        return f"SaslListener({', '.join(self.mechanisms)})"

    def exchange(self, mechanism: str) -> Exchange:
        """The server's side of an enabled mechanism, advanced to where it wants the first message. Failed where the
        client is refused."""
        if mechanism == PLAIN:
            side = self._plain()
        else:
            side = self._oauthbearer() if mechanism == OAUTHBEARER else self._scram(mechanism)
        next(side)
        return side

    def _plain(self) -> Exchange:
        message = yield b""
        try:
            count = message.count(b"\0") + 1  # before they are made: there may be millions
            authorization_id, user, password = message.decode().split("\0") if count == 3 else ("", "", "")
        except UnicodeDecodeError:
            count = 0
        if count != 3:
            raise Failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {count}")
        for name, text in (("username", user), ("password", password)):
            if not text:
                raise Failed(f"Authentication failed: {name} not specified")
        known = self._passwords.get(user)
        right = hmac.compare_digest(password.encode(), (known or self.secret.hex()).encode())
        if known is None or not right:
            raise Failed("Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise Failed(f"{_OTHER_ID} username")
        return LoggedIn(user)

    def _scram(self, name: str) -> Exchange:
        mechanism = scram.MECHANISMS[name]
        nonce = b64encode(self._entropy(scram.NONCE_BYTES)).decode()
        try:
            account, answer = yield from scram.server(mechanism, partial(self._accounts, name), nonce, self.secret)
            return LoggedIn(account.user, answer, account.expires_at, account.by_token)
        except scram.Refused as refused:
            reason = str(refused) or f"invalid credentials with SASL mechanism {name}"
            raise Failed(_NOT_DURING.format(reason)) from None

    def _oauthbearer(self) -> Exchange:
        assert self._verifier is not None
        try:
            first = oauthbearer.parse_first((yield b""))
        except oauthbearer.Malformed:
            raise Failed(_NOT_DURING.format(f"invalid credentials with SASL mechanism {OAUTHBEARER}")) from None
        try:
            token = self._verifier.verify(first.token, self._find_key, self._now())
        except access_tokens.Invalid as invalid:
            refusal = oauthbearer.REFUSAL
            raise Failed(refusal, reason=str(invalid), challenge=refusal.encode()) from None
        if first.authorization_id not in {"", token.user}:
            raise Failed(f"{_OTHER_ID} the token's principal name")
        return LoggedIn(token.user, expires_at=token.expires_at)


def check(config: BrokerConfig) -> None:
    """InvalidOption where a listener's SASL options cannot work; `config` is that of the listener."""
    unsupported = [name for name in config.sasl_enabled_mechanisms if name not in SUPPORTED]
    if unsupported or not config.sasl_enabled_mechanisms:
        named = ", ".join(unsupported) or "an empty list"
        raise InvalidOption(f"sasl.enabled.mechanisms: {named} is not supported; expected {', '.join(SUPPORTED)}")
    for name in config.sasl_enabled_mechanisms:
        _login(config, name)
        own = config.of_mechanism(name)
        if own.sasl_server_callback_handler_class not in {None, *(_HANDLERS if name == OAUTHBEARER else ())}:
            raise InvalidOption(
                f"{name.lower()}.sasl.server.callback.handler.class: {own.sasl_server_callback_handler_class} is not "
                "supported; brokers verify logins themselves and load no classes"
            )
        if name == OAUTHBEARER:
            access_tokens.check(own)


class Side(NamedTuple):
    """How a node logs in to others by one listener: the options of the listener, the mechanism, and the option that
    names it."""

    config: BrokerConfig
    mechanism: str
    option: str


def among_nodes(config: BrokerConfig) -> dict[str, Side]:
    """The node's side of the listeners by which it reaches others, of those with SASL, by name."""
    between = listeners.inter_broker_listener(config)
    return {
        name: _side(config.of_listener(name), is_between=name == between)
        for name, protocol in listeners.among_nodes(config).items()
        if protocol.startswith("SASL")
    }


def _side(own: BrokerConfig, *, is_between: bool) -> Side:
    if is_between:
        return Side(own, own.sasl_mechanism_inter_broker_protocol, "sasl.mechanism.inter.broker.protocol")
    return Side(own, own.sasl_mechanism_controller_protocol, "sasl.mechanism.controller.protocol")


def client(
    side: Side, entropy: Callable[[int], bytes], own_token: str = ""
) -> tuple[str, Generator[bytes, bytes, None]]:
    """The mechanism, and a node's side of logging in to another. `own_token` is its access token for OAUTHBEARER.
    InvalidOption if the options cannot work."""
    user, password = _own_login(side)
    password = own_token if side.mechanism == OAUTHBEARER else password
    nonce = b64encode(entropy(scram.NONCE_BYTES)).decode()
    return side.mechanism, client_exchange(side.mechanism, user, password, nonce)


def own_user(side: Side, own_token: str = "") -> str:
    """The user as which a node logs in to others. Others take the subject of its access token for its name."""
    user, _ = _own_login(side)
    config, mechanism = side.config, side.mechanism
    if mechanism != OAUTHBEARER:
        return user
    claim = config.of_mechanism(mechanism).sasl_oauthbearer_sub_claim_name
    subject = oauthbearer.claims(own_token).get(claim)
    if not isinstance(subject, str) or not subject.strip():
        raise InvalidOption(f"sasl.oauthbearer.token.endpoint.url: the token has no claim {claim} that names a user")
    return subject.strip()


def options_of_own_token(config: BrokerConfig) -> BrokerConfig | None:
    """The options of a node that logs in to others by OAUTHBEARER, as they hold for this; None for other nodes. It has
    one token: where it is used between brokers and for controllers, the options between brokers count."""
    side = next((each for each in among_nodes(config).values() if each.mechanism == OAUTHBEARER), None)
    if side is None:
        return None
    own = side.config.of_mechanism(OAUTHBEARER)
    if own.sasl_login_callback_handler_class not in {None, *_LOGIN_HANDLERS}:
        raise InvalidOption(
            f"oauthbearer.sasl.login.callback.handler.class: {own.sasl_login_callback_handler_class} is not supported; "
            "brokers fetch their token themselves and load no classes"
        )
    if own.sasl_oauthbearer_jwt_retriever_class not in _RETRIEVERS:
        raise InvalidOption(f"sasl.oauthbearer.jwt.retriever.class must be one of {', '.join(sorted(_RETRIEVERS))}")
    return own


def _own_login(side: Side) -> tuple[str, str]:
    """(user, password); empty for OAUTHBEARER."""
    mechanism = side.mechanism
    if mechanism not in SUPPORTED:
        raise InvalidOption(f"{side.option}: {mechanism} is not supported; expected {', '.join(SUPPORTED)}")
    login = _login(side.config, mechanism)
    if mechanism == OAUTHBEARER:
        return "", ""
    try:
        return login.options["username"], login.options["password"]
    except KeyError as missing:
        raise InvalidOption(
            f"sasl.jaas.config of {mechanism}, with which nodes log in to each other: {missing.args[0]} is missing"
        ) from None


def client_exchange(
    mechanism: str, user: str, password: str, nonce: str, *, by_token: bool = False
) -> Generator[bytes, bytes, None]:
    """A client's side: yields what it sends, is sent what the server answers. `by_token` is for SCRAM only. With
    OAUTHBEARER the access token is the password."""
    if mechanism == PLAIN:
        yield f"\0{user}\0{password}".encode()
    elif mechanism == OAUTHBEARER:
        yield from oauthbearer.client(password)
    else:
        yield from scram.client(scram.MECHANISMS[mechanism], user, password, nonce, by_token=by_token)


def _login(config: BrokerConfig, mechanism: str) -> jaas.Login:
    """The mechanism's JAAS login on this listener. Its module decides nothing here; another one than Kafka's is a
    mistake, and never a class to load."""
    option = f"{mechanism.lower()}.sasl.jaas.config"
    text, module = config.of_mechanism(mechanism).sasl_jaas_config, MODULES[mechanism]
    if text is None:
        example = f"org.apache.kafka.common.security.{module} required;"
        raise InvalidOption(f"{option} is missing: SASL/{mechanism} needs a JAAS login, such as {example}")
    login = jaas.parse(text, option)
    if login.module != module.partition(".")[2]:
        raise InvalidOption(
            f"{option}: {login.module} is not supported; SASL/{mechanism} needs {module.partition('.')[2]}"
        )
    return login
