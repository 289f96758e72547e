"""Delegation tokens (KIP-48): a user's stand-in for his password, with an id, an HMAC that is its secret, and an end.

The HMAC follows from the cluster's secret and the token's id, so it is not stored. With SCRAM the id is the user's name
and the HMAC, in base64, the password.
"""

import hmac
from base64 import b64encode
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.security import scram

USER = "User"


class Principal(NamedTuple):
    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def principal_of(text: str) -> Principal:
    """`User:alice` in its two parts; ValueError without a colon."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not a principal; expected TYPE:NAME")
    return Principal(kind, name)


def owner_named(kind: str | None, name: str) -> Principal:
    """The owner that a request names. It is the principal of both parts together, as rules and the tree name it: the
    user `a:b` must not become the user `b` by saying that `User:a` is the type."""
    return principal_of(f"{kind or ''}:{name}")


class Token(NamedTuple):
    """Times are wall clock, in milliseconds. Its use ends at `expires_ms`, which can be moved up to `max_ms`."""

    id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return now_ms > min(self.max_ms, self.expires_ms)

    def may_renew(self, principal: Principal) -> bool:
        return principal == self.owner or principal in self.renewers

    def is_about(self, principal: Principal) -> bool:
        """Whether the principal sees the token without any rule."""
        return self.may_renew(principal) or principal == self.requester


def hmac_of(secret: str, token_id: str) -> bytes:
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


class _Held(NamedTuple):
    token: Token
    hmac: bytes
    credentials: dict[str, scram.Credential]
    """By mechanism, made when somebody first logs in with the token: that takes milliseconds."""


class TokenTable:
    """The tokens of a cluster. Without a secret there are none."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret or ""
        self._held: dict[str, _Held] = {}
        self._ids: dict[bytes, str] = {}

    def __repr__(self) -> str:
        return f"<TokenTable of {len(self._held)} tokens>"

    def __iter__(self) -> Iterator[Token]:
        return (held.token for held in self._held.values())

    @property
    def is_enabled(self) -> bool:
        return bool(self._secret)

    def put(self, token: Token) -> None:
        """A new token, or a known one whose end was moved."""
        before = self._held.get(token.id)
        if before is None:
            known = hmac_of(self._secret, token.id)
            self._held[token.id] = _Held(token, known, {})
            self._ids[known] = token.id
        else:
            self._held[token.id] = before._replace(token=token)

    def remove(self, token_id: str) -> None:
        held = self._held.pop(token_id, None)
        if held is not None:
            del self._ids[held.hmac]

    def clear(self) -> None:
        self._held.clear()
        self._ids.clear()

    def get(self, token_id: str) -> Token | None:
        held = self._held.get(token_id)
        return None if held is None else held.token

    def hmac(self, token_id: str) -> bytes:
        """Of a token that is there."""
        return self._held[token_id].hmac

    def by_hmac(self, known: bytes) -> Token | None:
        token_id = self._ids.get(bytes(known))
        return None if token_id is None else self._held[token_id].token

    def account(self, mechanism: scram.Mechanism, token_id: str, now_ms: int) -> scram.Account | None:
        """Whom the token logs in, until it expires. Kafka stored tokens of owners of any type; a login is a user's."""
        held = self._held.get(token_id)
        if held is None or held.token.owner.type != USER or held.token.is_expired(now_ms):
            return None
        credential = held.credentials.get(mechanism.name)
        if credential is None:
            credential = held.credentials[mechanism.name] = _credential(mechanism, held.hmac)
        token = held.token
        return scram.Account(token.owner.name, credential, min(token.max_ms, token.expires_ms), by_token=True)


def _credential(mechanism: scram.Mechanism, known: bytes) -> scram.Credential:
    """The salt follows from the HMAC, so that it is the same on all brokers, as that of a user is."""
    salt = scram.salt_of(hmac.digest(known, b"salt", "sha256"))
    iterations = scram.MIN_ITERATIONS
    password = scram.salted(mechanism, b64encode(known).decode(), salt, iterations)
    return scram.credential(mechanism, password, salt, iterations)
