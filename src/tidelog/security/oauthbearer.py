"""The messages of SASL/OAUTHBEARER (RFC 7628), from both sides."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Generator, Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from tidelog.errors import InvalidOption

MECHANISM = "OAUTHBEARER"
REFUSAL = '{"status":"invalid_token"}'
"""What a client is answered whose token is not valid. It answers with one byte, and is then refused."""
ACKNOWLEDGED = b"\x01"
MOST_BYTES = 65_536
"""The longest message of a client: checking a token costs time that grows with its length."""

USED_FOR = 0.8
"""The part of a token's lifetime after which a client or broker fetches the next one: Kafka's
sasl.login.refresh.window.factor."""

_FIRST = re.compile(
    r"n,(?:a=(?P<authzid>(?:[^\x00=,\x80-\U0010ffff]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class Malformed(Exception):
    """The message is not one of OAUTHBEARER."""


class First(NamedTuple):
    """A client's first message. `authorization_id` is the user that it wants to be, "" if it names none."""

    authorization_id: str
    token: str

    def __repr__(self) -> str:
        return f"First({self.authorization_id!r}, a token of {len(self.token)} characters)"


def parse_first(message: bytes) -> First:
    """Malformed unless it carries a bearer token. Extensions are allowed and have no effect, as in Kafka."""
    try:
        match = _FIRST.fullmatch(message.decode("ascii")) if len(message) <= MOST_BYTES else None
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise Malformed
    pairs = [pair.partition("=")[::2] for pair in match["pairs"].split("\x01")[:-1]]
    fields = dict(pairs)
    auth = _AUTH.fullmatch(fields.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer" or len(fields) < len(pairs):
        raise Malformed
    return First((match["authzid"] or "").replace("=2C", ",").replace("=3D", "="), auth["token"])


def client(token: str) -> Generator[bytes, bytes, None]:
    """The client's side: yields its messages, is sent the server's."""
    if (yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
        yield ACKNOWLEDGED  # of the refusal; the broker's next answer is an error


def claims(token: str) -> Mapping[str, object]:
    """What a token says, as whoever sends it may read it; nothing is verified. Empty if it is not a JWT."""
    try:
        content = token.split(".")[1]
        found = json.loads(urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    except (ValueError, LookupError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def expires_at(token: str) -> int:
    """When a token expires (wall ms), as its receiver will read it; 0 if that is not known."""
    moment = claims(token).get("exp")
    return int(moment * 1000) if isinstance(moment, int | float) and 0 <= moment < 1e12 else 0


def parse_url(option: str, text: str) -> SplitResult:
    """InvalidOption unless it names a file of this machine or an HTTPS server. Kafka accepts http:// too."""
    try:
        url = urlsplit(text.strip())
        is_file = url.scheme == "file" and url.netloc in ("", "localhost") and url.path.startswith("/")
        if is_file or (url.scheme == "https" and url.hostname and url.port != 0):
            return url
    except ValueError:
        """A port that is not a number, or brackets that do not match."""
    raise InvalidOption(f"{option} must be a file:/// or https:// URL, not {text!r}")
