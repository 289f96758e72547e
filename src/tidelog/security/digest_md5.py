"""The client's side of a SASL login with DIGEST-MD5 (RFC 2831), the only one with a password that ZooKeeper has.

MD5 is weak: use TLS as well, so that nobody can record a login and try passwords.
"""

import hmac
import re
from collections.abc import Generator
from hashlib import md5

from tidelog.errors import ApiError, ErrorCode

_FIELD = re.compile(r'([a-z-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s,"]+))')
_COUNT = "00000001"


def client(user: str, password: str, cnonce: str, uri: str) -> Generator[bytes, bytes, None]:
    """Yields the client's messages, is sent the server's. `uri` is service/host. ApiError if the server sends no
    challenge, or cannot prove that it knows the password."""
    challenge = _fields((yield b""))
    if "nonce" not in challenge:
        raise _refused("the server sent no challenge")
    realm, nonce = challenge.get("realm", ""), challenge["nonce"]
    secret = _hash(b":".join(_encoded(part) for part in (user, realm, password)))
    session = _hash(secret + f":{nonce}:{cnonce}".encode()).hex()

    def proof(prefix: str) -> str:
        hashed_uri = _hash(f"{prefix}:{uri}".encode()).hex()
        return _hash(f"{session}:{nonce}:{_COUNT}:{cnonce}:auth:{hashed_uri}".encode()).hex()

    answer = (
        f'charset=utf-8,username="{_quoted(user)}",realm="{_quoted(realm)}",nonce="{_quoted(nonce)}",nc={_COUNT},'
        f'cnonce="{cnonce}",digest-uri="{uri}",response={proof("AUTHENTICATE")},qop=auth'
    )
    last = _fields((yield answer.encode()))
    if not hmac.compare_digest(last.get("rspauth", "").encode(), proof("").encode()):
        raise _refused("the server does not prove that it knows the password")


def _fields(message: bytes) -> dict[str, str]:
    text = message.decode("utf-8", "replace")
    return {name: re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in _FIELD.findall(text)}


def _hash(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _encoded(text: str) -> bytes:
    """As the RFC requires: ISO 8859-1 where that is possible."""
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _refused(why: str) -> ApiError:
    return ApiError(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
