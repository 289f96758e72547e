"""Who may ask, and what a browser may do with the answer.

The token is no cookie: cookies go to every port of a host, and with requests of other pages, too. The page keeps it
where only pages of this address can read it, and sends it in a header, so that no other page can ask in its name.
"""

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

API = "/api/"
TOKEN_BYTES = 32
BEARER = "Bearer "
JSON = "application/json"
MAX_BODY_BYTES = 16 * 1024 * 1024

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No inline script or style, nothing from elsewhere, and no text becomes markup: the browser itself refuses."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Refusal(NamedTuple):
    """Why a request is not served."""

    status: HTTPStatus
    sentence: str


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


class Rules(NamedTuple):
    """`names` are the hosts by which the page may be reached, besides addresses in numbers."""

    token: str
    names: frozenset[str]
    allow_changes: bool = False

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why this request is refused, by its headers; None if it is served."""
        host = headers.get("host", "")
        if not self._is_own_host(host):
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, f"{host!r} is not a name of this console; see --host-name.")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return Refusal(HTTPStatus.FORBIDDEN, "Requests of other pages are refused.")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and path.startswith(API):
            return Refusal(HTTPStatus.FORBIDDEN, "Requests of other pages are refused.")
        if not path.startswith(API):
            allowed = method in ("GET", "HEAD")
            return None if allowed else Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "This can only be read.")
        return self._api_refusal(method, headers)

    def _api_refusal(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        given = headers.get("authorization", "")
        token = given.removeprefix(BEARER) if given.startswith(BEARER) else ""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return Refusal(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong: use the printed address.")
        if method not in ("GET", "POST"):
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Use GET or POST.")
        if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != JSON:
            return Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must be {JSON}.")
        return None

    def _is_own_host(self, host: str) -> bool:
        """Whether a name of this console was asked. An address in numbers is: no other page can have it as its name."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


class Gate:
    """The ASGI application around the console's own: refuses, limits bodies, and adds the headers to every answer."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket that nobody accepts is closed
        headers = _decoded(scope["headers"])
        refusal = self._rules.refusal(scope["method"], scope["path"], headers)
        if refusal is None and int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            refusal = Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The limit is {MAX_BODY_BYTES} bytes.")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in own]
                message["headers"] = [*message["headers"], *added]
            await send(message)

        if refusal is not None:
            await _refuse(refusal, send_with_headers)
        else:
            await self._app(scope, _limited(receive), send_with_headers)


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers by their name; of one that is there twice, both values, which then fit nothing."""
    found: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    if not found.get("content-length", "0").isdecimal():
        found["content-length"] = str(MAX_BODY_BYTES + 1)
    return found


def _limited(receive: Receive) -> Receive:
    """A body without a length in its header has the same limit."""
    seen = 0

    async def receive_at_most() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= MAX_BODY_BYTES else {"type": "http.disconnect"}

    return receive_at_most


async def _refuse(refusal: Refusal, send: Send) -> None:
    body = refusal.sentence.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
