"""SCRAM (RFC 5802, 7677): credentials as Kafka stores them, and the exchange from the server's and the client's side.

A server checks what the client proves and says: the nonce begins with its own, the channel binding is the header of the
first message (CVE-2024-56128), and the authorization id, if any, is the user.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Generator
from typing import NamedTuple

from tidelog.errors import ApiError, ErrorCode

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
NONCE_BYTES = 18
MOST_BYTES = 8192
"""The maximum size of a client's message: 512 KiB of it would hold up all other clients for 0.1 s."""
_SALT_BITS = 130
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Mechanism(NamedTuple):
    name: str
    digest: str
    number: int
    """In DescribeUserScramCredentials and AlterUserScramCredentials."""


MECHANISMS = {
    each.name: each for each in (Mechanism("SCRAM-SHA-256", "sha256", 1), Mechanism("SCRAM-SHA-512", "sha512", 2))
}
BY_NUMBER = {each.number: each for each in MECHANISMS.values()}


class Credential(NamedTuple):
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"Credential({self.iterations} iterations)"


def credential(mechanism: Mechanism, salted_password: bytes, salt: bytes, iterations: int) -> Credential:
    """From a password that was salted (`salted`) already, by a client for instance."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.digest)
    return Credential(salt, hashlib.new(mechanism.digest, client_key).digest(), server_key, iterations)


class Account(NamedTuple):
    """Whom a name logs in. A delegation token's name logs in the token's owner, until the token expires (`expires_at`,
    wall clock)."""

    user: str
    credential: Credential
    expires_at: int | None = None
    by_token: bool = False


def salted(mechanism: Mechanism, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def format_credential(known: Credential) -> str:
    """Kafka's text below `/config/users`."""
    salt, stored, server = (b64encode(each).decode() for each in known[:3])
    return f"salt={salt},stored_key={stored},server_key={server},iterations={known.iterations}"


def parse_credential(text: str) -> Credential | None:
    """None where the text is not a credential."""
    pairs = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        salt, stored, server = (b64decode(pairs[name], validate=True) for name in ("salt", "stored_key", "server_key"))
        return Credential(salt, stored, server, int(pairs["iterations"]))
    except (KeyError, ValueError):
        return None


class Refused(Exception):
    """The client is not who it says it is, or does not speak SCRAM; the text, if any, is the reason it is given."""


_FIRST = re.compile(
    r"(?P<header>n,(?:a=(?P<authzid>[^,]+))?,)(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[^,]+)(?:,[A-Za-z]=[^,]*)*?),p=(?P<proof>[A-Za-z0-9+/=]+)"
)

_DELEGATED = "tokenauth"

Lookup = Callable[[str, bool], Account | None]
"""(name, whether it is the name of a delegation token) → the account."""


def server(
    mechanism: Mechanism, lookup: Lookup, nonce: str, secret: bytes
) -> Generator[bytes, bytes, tuple[Account, bytes]]:
    """The server's side: is sent the client's messages, yields its answer to the first, and returns the account and the
    answer to the last. Refused where the exchange fails.

    An unknown user meets a credential that is made of `secret` and the name: always the same, and never met.
    """
    first = _matched(_FIRST, (yield b""))
    user = first["user"].replace("=2C", ",").replace("=3D", "=")
    if first["authzid"] and first["authzid"].replace("=2C", ",").replace("=3D", "=") != user:
        raise Refused("an authorization id that is different from username")
    extensions = dict(part.partition("=")[::2] for part in first["extensions"].split(","))
    found = lookup(user, extensions.get(_DELEGATED, "").lower() == "true")
    nobodys = _nobodys(mechanism, user, secret)  # always, so that it takes as long for a known user
    known = nobodys if found is None else found.credential
    both = first["nonce"] + nonce
    answer = f"r={both},s={b64encode(known.salt).decode()},i={known.iterations}"
    final = _matched(_FINAL, (yield answer.encode()))
    everything = f"{first['bare']},{answer},{final['bare']}".encode()
    signature = hmac.digest(known.stored_key, everything, mechanism.digest)
    client_key = _xor(_decoded(final["proof"]), signature)
    proven = hmac.compare_digest(hashlib.new(mechanism.digest, client_key).digest(), known.stored_key)
    bound = _decoded(final["binding"]) == first["header"].encode()
    if not (hmac.compare_digest(final["nonce"].encode(), both.encode()) and bound and proven and found is not None):
        raise Refused
    return found, b"v=" + b64encode(hmac.digest(known.server_key, everything, mechanism.digest))


def _nobodys(mechanism: Mechanism, user: str, secret: bytes) -> Credential:
    seed = hmac.digest(secret, user.encode(), mechanism.digest)
    return Credential(salt_of(seed), seed, seed, MIN_ITERATIONS)


def salt_of(seed: bytes) -> bytes:
    """A salt of the form of those that Kafka's tool makes: 130 bits in base 36."""
    number = int.from_bytes(seed) % (1 << _SALT_BITS)
    salt = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        salt += _DIGITS[digit]
    return salt.encode()


def _matched(pattern: re.Pattern[str], message: bytes) -> re.Match[str]:
    try:
        match = pattern.fullmatch(message.decode()) if len(message) <= MOST_BYTES else None
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise Refused
    return match


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64:
        raise Refused from None


def _xor(proof: bytes, signature: bytes) -> bytes:
    if len(proof) != len(signature):
        raise Refused
    return bytes(a ^ b for a, b in zip(proof, signature, strict=True))


def client(
    mechanism: Mechanism, user: str, password: str, nonce: str, *, by_token: bool = False
) -> Generator[bytes, bytes, None]:
    """The client's side: yields its messages, is sent the server's. ApiError where the server cannot prove that it
    knows the password, or asks for an amount of work that no server needs. With `by_token` the user is the id of a
    delegation token, and the password its HMAC."""
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}{f',{_DELEGATED}=true' if by_token else ''}"
    answer = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(answer)
    try:
        salt, iterations, both = b64decode(fields["s"], validate=True), int(fields["i"]), fields["r"]
    except (KeyError, ValueError):
        raise _unproven() from None
    if not both.startswith(nonce) or not 0 < iterations <= 100 * MAX_ITERATIONS:
        raise _unproven()
    key = salted(mechanism, password, salt, iterations)
    without_proof = f"c=biws,r={both}"
    everything = f"{first},{answer},{without_proof}".encode()
    made = credential(mechanism, key, salt, iterations)
    client_key = hmac.digest(key, b"Client Key", mechanism.digest)
    proof = _xor(client_key, hmac.digest(made.stored_key, everything, mechanism.digest))
    last = _fields((yield f"{without_proof},p={b64encode(proof).decode()}".encode()).decode(errors="replace"))
    wanted = b64encode(hmac.digest(made.server_key, everything, mechanism.digest)).decode()
    if not hmac.compare_digest(last.get("v", "").encode(), wanted.encode()):
        raise _unproven()


def _fields(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",")}


def _unproven() -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, "the broker does not prove that it knows the password")
