"""JWT access tokens (RFC 7519) and the keys that verify them (JWKS, RFC 7517), with PyJWT.

Signatures are verified by public keys only, with an algorithm of `ALGORITHMS` that fits the key: no token can choose
`none` or a shared secret. Nothing here puts a token, or a part of one, into a message.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.errors import InvalidOption
from tidelog.security.oauthbearer import MECHANISM, parse_url

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    **{f"{kind}{bits}": ("RSA", None) for kind in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""What may sign a token, and the type and curve of its keys."""

_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""What is read of a key, by its type."""
_MOST_KEYS = 1000


class Invalid(Exception):
    """A token is refused; the text says why, in words of ours only."""


class _Key(NamedTuple):
    key_id: str | None
    algorithm: str | None
    content: Mapping[str, Any]


class KeySet:
    """The keys of a token provider that can verify signatures."""

    def __init__(self, text: str) -> None:
        """From the JSON of a JWKS. ValueError if it has no key that can be used."""
        try:
            keys = json.loads(text)["keys"]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise ValueError("it is not a JSON Web Key Set") from None
        listed = [_usable(each) for each in keys[:_MOST_KEYS]] if isinstance(keys, list) else []
        self._keys: Sequence[_Key] = [each for each in listed if each is not None]
        self._loaded: dict[tuple[str | None, str], PyJWK] = {}
        if not self._keys:
            raise ValueError("it has no public key for signatures")

    def __repr__(self) -> str:
        return f"KeySet({len(self._keys)} keys)"

    def find(self, key_id: str | None, algorithm: str) -> "PyJWK | None":
        """The key with the id that fits the algorithm. A token without the id of a key can have but one."""
        from jwt import PyJWK, PyJWTError

        found = self._loaded.get((key_id, algorithm))
        if found is not None:
            return found
        kind, curve = ALGORITHMS[algorithm]
        fitting = [
            key
            for key in self._keys
            if key.content["kty"] == kind
            and (curve is None or key.content["crv"] == curve)
            and key.algorithm in (None, algorithm)
            and key_id in (None, key.key_id)
        ]
        if not fitting or (key_id is None and len(fitting) > 1):
            return None
        try:
            found = self._loaded[key_id, algorithm] = PyJWK(dict(fitting[0].content), algorithm)
        except (PyJWTError, ValueError):
            return None
        return found


def _usable(key: object) -> _Key | None:
    """None for secrets, keys for encryption, and what is no key."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig":
        return None
    operations = key.get("key_ops")
    names = _PUBLIC.get(str(key.get("kty")))
    if names is None or (isinstance(operations, list) and "verify" not in operations):
        return None
    content = {name: key[name] for name in names if isinstance(key.get(name), str)}
    if len(content) < len(names):
        return None
    return _Key(key.get("kid"), key.get("alg"), {"kty": key["kty"], **content})


class Identity(NamedTuple):
    """Whom a valid token names, and when it expires (wall ms)."""

    user: str
    expires_at: int


FindKey = Callable[[str, str | None, str], "PyJWK | None"]
"""(URL of the provider's keys, key id, algorithm) → the key."""


class Verifier:
    """What a listener demands of tokens, by the `sasl.oauthbearer` options."""

    def __init__(self, config: BrokerConfig) -> None:
        """`config` is that of the listener and the mechanism."""
        check(config)
        self.url = (config.sasl_oauthbearer_jwks_endpoint_url or "").strip()
        self._issuer = config.sasl_oauthbearer_expected_issuer
        self._audience = config.sasl_oauthbearer_expected_audience
        self._skew_s = config.sasl_oauthbearer_clock_skew_seconds
        self._subject = config.sasl_oauthbearer_sub_claim_name
        self._scope = config.sasl_oauthbearer_scope_claim_name

    def __repr__(self) -> str:
        return f"Verifier({self._issuer}, {self._audience})"

    def verify(self, token: str, find: FindKey, now: int) -> Identity:
        """Whom the token names; Invalid unless everything about it is right at `now` (wall ms)."""
        import jwt

        try:
            claims = self._claims(token, find)
            self._check_times(claims, now / 1000)
            self._check_scope(claims.get(self._scope))
        except (Invalid, AssertionError):
            raise
        except jwt.ExpiredSignatureError:
            raise Invalid("the token has expired") from None
        except jwt.InvalidAudienceError:
            raise Invalid("the token is for another audience than sasl.oauthbearer.expected.audience") from None
        except jwt.InvalidIssuerError:
            raise Invalid("the token is not of sasl.oauthbearer.expected.issuer") from None
        except jwt.MissingRequiredClaimError as missing:
            raise Invalid(f"the token has no claim {missing.claim}") from None
        except jwt.InvalidSignatureError:
            raise Invalid("the signature of the token is wrong") from None
        except Exception:  # noqa: BLE001  (whatever a client's bytes cause refuses it, and must not be logged)
            raise Invalid("the token is not a valid JWT") from None
        user = claims.get(self._subject)
        if not isinstance(user, str) or not user.strip():
            raise Invalid(f"the token has no claim {self._subject} that names a user")
        return Identity(user.strip(), int(claims["exp"] * 1000))

    def _claims(self, token: str, find: FindKey) -> Mapping[str, Any]:
        import jwt

        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise Invalid(f"the token is not signed by one of {', '.join(ALGORITHMS)}")
        key = find(self.url, key_id, algorithm)
        if key is None:
            raise Invalid("no key at sasl.oauthbearer.jwks.endpoint.url has the token's kid and algorithm")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._audience,
            issuer=self._issuer,
            options={
                "require": ["exp", "iat", "aud", "iss"],
                "enforce_minimum_key_length": True,
                # PyJWT would read the clock, which is an input here: `_check_times`.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_sub": False,
                "verify_jti": False,
            },
        )
        return claims

    def _check_times(self, claims: Mapping[str, Any], now_s: float) -> None:
        """As Kafka's: a token issued later than now is accepted, but not one that would expire before that."""
        expires, issued, begins = (_seconds(claims, name) for name in ("exp", "iat", "nbf"))
        if expires is None or issued is None:
            raise Invalid("the token has no claims exp and iat")
        if now_s - self._skew_s >= expires:
            raise Invalid("the token has expired")
        if begins is not None and now_s + self._skew_s < begins:
            raise Invalid("the token is not valid yet")
        if expires < max(issued, begins or 0):
            raise Invalid("the token expires before it is valid")

    def _check_scope(self, scope: object) -> None:
        """As Kafka's: none, a text, or several texts that differ. Nothing here asks for a scope."""
        scopes = [scope] if isinstance(scope, str) else scope if isinstance(scope, list) else []
        texts = [each.strip() for each in scopes if isinstance(each, str)]
        if len(texts) < len(scopes) or not all(texts) or len(set(texts)) < len(texts):
            raise Invalid(f"the claim {self._scope} of the token is not a scope")


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise Invalid(f"the claim {name} of the token is not a time")
    return value


VALIDATORS = frozenset(
    f"org.apache.kafka.common.security.oauthbearer.{name}" for name in ("DefaultJwtValidator", "BrokerJwtValidator")
)


def check(config: BrokerConfig) -> None:
    """InvalidOption where something is missing that tells tokens from forged ones; `config` is that of the listener and
    the mechanism."""
    prefix = "sasl.oauthbearer"
    url, audiences = config.sasl_oauthbearer_jwks_endpoint_url, config.sasl_oauthbearer_expected_audience
    needed = {
        f"{prefix}.jwks.endpoint.url": url,
        f"{prefix}.expected.issuer": config.sasl_oauthbearer_expected_issuer,
        f"{prefix}.expected.audience": audiences and all(audiences),
    }
    missing = [name for name, value in needed.items() if not value]
    if missing:
        raise InvalidOption(f"{', '.join(missing)}: SASL/OAUTHBEARER needs this to verify tokens")
    parse_url(f"{prefix}.jwks.endpoint.url", str(url))
    validator = config.sasl_oauthbearer_jwt_validator_class
    if validator not in VALIDATORS:
        raise InvalidOption(f"{prefix}.jwt.validator.class must be one of {', '.join(sorted(VALIDATORS))}")
    for name, claim in (
        ("sub", config.sasl_oauthbearer_sub_claim_name),
        ("scope", config.sasl_oauthbearer_scope_claim_name),
    ):
        if not claim.strip():
            raise InvalidOption(f"{prefix}.{name}.claim.name must not be empty")
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise InvalidOption("SASL/OAUTHBEARER needs the package PyJWT: pip install 'tidelog[oauth]'") from None


def providers(config: BrokerConfig) -> dict[str, BrokerConfig]:
    """The URLs of the keys that a broker needs, each with the options of the first listener that names it."""
    found: dict[str, BrokerConfig] = {}
    for each in listeners.opened(config):
        if each.security.startswith("SASL"):
            own = listeners.options_of(config, each.listener)
            if MECHANISM in own.sasl_enabled_mechanisms:
                options = own.of_mechanism(MECHANISM)
                found.setdefault((options.sasl_oauthbearer_jwks_endpoint_url or "").strip(), options)
    return found
