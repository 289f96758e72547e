"""One SASL exchange: PLAIN (RFC 4616) and SCRAM, as the server and as the client."""

import hmac
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security import jaas, scram

PLAIN = "PLAIN"
SUPPORTED = (PLAIN, *scram.MECHANISMS)
MODULES = {PLAIN: "PlainLoginModule", **dict.fromkeys(scram.MECHANISMS, "ScramLoginModule")}
"""The last word of the Java class in a mechanism's JAAS login."""

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
    """The client is refused; the message is for it, and holds no secret."""


class SaslListener:
    """What a listener's SASL connections share: mechanisms, PLAIN's users, and a secret for users that do not exist."""

    def __init__(
        self, config: BrokerConfig, accounts: Accounts, entropy: Callable[[int], bytes], secret: bytes = b""
    ) -> None:
        """`config` is that of the listener (`BrokerConfig.of_listener`). `secret` is the cluster's: with one for each
        broker, a user that does not exist would be known by its salts, which differ."""
        self.mechanisms: Sequence[str] = config.sasl_enabled_mechanisms
        self.max_reauth_ms = {name: config.of_mechanism(name).connections_max_reauth_ms for name in self.mechanisms}
        self.failure_delay_ms = config.connection_failed_authentication_delay_ms
        self._accounts = accounts
        self._entropy = entropy
        self._secret = secret or entropy(32)
        self._passwords = _login(config, PLAIN).users if PLAIN in self.mechanisms else {}

    def __repr__(self) -> str:
        return f"SaslListener({', '.join(self.mechanisms)})"

    def exchange(self, mechanism: str) -> Exchange:
        """The server's side of an enabled mechanism, advanced to where it wants the first message. Failed where the
        client is refused."""
        side = self._plain() if mechanism == PLAIN else self._scram(mechanism)
        next(side)
        return side

    def _plain(self) -> Exchange:
        message = yield b""
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError:
            parts = []
        if len(parts) != 3:
            raise Failed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        for name, text in (("username", user), ("password", password)):
            if not text:
                raise Failed(f"Authentication failed: {name} not specified")
        known = self._passwords.get(user)
        right = hmac.compare_digest(password.encode(), (known or self._secret.hex()).encode())
        if known is None or not right:
            raise Failed("Authentication failed: Invalid username or password")
        if authorization_id not in {"", user}:
            raise Failed("Authentication failed: Client requested an authorization id that is different from username")
        return LoggedIn(user)

    def _scram(self, name: str) -> Exchange:
        mechanism = scram.MECHANISMS[name]
        nonce = b64encode(self._entropy(scram.NONCE_BYTES)).decode()
        try:
            account, answer = yield from scram.server(mechanism, partial(self._accounts, name), nonce, self._secret)
            return LoggedIn(account.user, answer, account.expires_at, account.by_token)
        except scram.Refused as refused:
            reason = str(refused) or f"invalid credentials with SASL mechanism {name}"
            raise Failed(f"Authentication failed during authentication due to {reason}") from None


def check(config: BrokerConfig) -> None:
    """InvalidOption where a listener's SASL options cannot work; `config` is that of the listener."""
    unsupported = [name for name in config.sasl_enabled_mechanisms if name not in SUPPORTED]
    if unsupported or not config.sasl_enabled_mechanisms:
        named = ", ".join(unsupported) or "an empty list"
        raise InvalidOption(f"sasl.enabled.mechanisms: {named} is not supported; expected {', '.join(SUPPORTED)}")
    for name in config.sasl_enabled_mechanisms:
        _login(config, name)


def client(config: BrokerConfig, entropy: Callable[[int], bytes]) -> tuple[str, Generator[bytes, bytes, None]]:
    """The mechanism, and a broker's side of logging in to another; `config` is that of the listener between brokers."""
    mechanism, user, password = _own_login(config)
    return mechanism, client_exchange(mechanism, user, password, b64encode(entropy(scram.NONCE_BYTES)).decode())


def own_user(config: BrokerConfig) -> str:
    """The user as which a broker logs in to others; `config` is that of the listener between brokers."""
    return _own_login(config)[1]


def _own_login(config: BrokerConfig) -> tuple[str, str, str]:
    """(mechanism, user, password)."""
    mechanism = config.sasl_mechanism_inter_broker_protocol
    if mechanism not in SUPPORTED:
        raise InvalidOption(
            f"sasl.mechanism.inter.broker.protocol: {mechanism} is not supported; expected {', '.join(SUPPORTED)}"
        )
    login = _login(config, mechanism)
    try:
        return mechanism, login.options["username"], login.options["password"]
    except KeyError as missing:
        raise InvalidOption(f"sasl.jaas.config of {mechanism} between brokers: {missing.args[0]} is missing") from None


def client_exchange(
    mechanism: str, user: str, password: str, nonce: str, *, by_token: bool = False
) -> Generator[bytes, bytes, None]:
    """A client's side: yields what it sends, is sent what the server answers. `by_token` is for SCRAM only."""
    if mechanism == PLAIN:
        yield f"\0{user}\0{password}".encode()
    else:
        yield from scram.client(scram.MECHANISMS[mechanism], user, password, nonce, by_token=by_token)


def _login(config: BrokerConfig, mechanism: str) -> jaas.Login:
    """The mechanism's JAAS login on this listener. Its module decides nothing here; another one than Kafka's is a
    mistake, and never a class to load."""
    option = f"{mechanism.lower()}.sasl.jaas.config"
    text, module = config.of_mechanism(mechanism).sasl_jaas_config, MODULES[mechanism]
    if text is None:
        raise InvalidOption(f"{option} is missing: SASL/{mechanism} needs a JAAS login, such as {module} required;")
    login = jaas.parse(text, option)
    if login.module != module:
        raise InvalidOption(f"{option}: {login.module} is not supported; SASL/{mechanism} needs {module}")
    return login
