"""What is read from an OAuth token provider: a file, or the answer of an HTTPS server. It blocks, so brokers do it on a
thread.

Redirects and proxies are not followed: a request goes to the server that the configuration names.
"""

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from urllib.parse import SplitResult, unquote

from tidelog.client.options import ClientOptions, parse
from tidelog.security import jaas
from tidelog.shell.connections import tls

MOST_BYTES = 1_048_576
_PIECE = 65_536
OK = (200, 201)


class HttpError(OSError):
    """The server answered, but with an error. The text holds nothing of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(f"it answers with status {status}")
        self.status = status


def request(
    url: SplitResult,
    context: ssl.SSLContext,
    *,
    timeout_s: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The answer to a GET, or to a POST of `body`. OSError if there is none; its text holds no secret."""
    assert url.scheme == "https"
    assert url.hostname is not None
    deadline = time.monotonic() + timeout_s
    connection = http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout_s, context=context)
    try:
        target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
        sent = {"Accept": "application/json", **(headers or {})}
        connection.request("GET" if body is None else "POST", target, body, sent)
        with connection.getresponse() as response:
            if response.status not in OK:
                raise HttpError(response.status)
            return _content(response, deadline)
    except http.client.HTTPException as problem:
        raise OSError(f"it does not answer in HTTP ({type(problem).__name__})") from None
    finally:
        connection.close()


def _content(response: http.client.HTTPResponse, deadline: float) -> bytes:
    content = bytearray()
    while piece := response.read1(_PIECE):
        content += piece
        if len(content) > MOST_BYTES:
            raise OSError(f"its answer is longer than {MOST_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("its answer takes too long")
    return bytes(content)


def login_context(login: str) -> ssl.SSLContext:
    """The TLS of connections to a token provider: as the options `ssl.…` of the JAAS login say, as in Kafka, else with
    the machine's authorities."""
    given = jaas.parse(login).options
    named = {name: text for name, text in given.items() if name.startswith("ssl.")}
    known = {name for name in named if name.replace(".", "_") in ClientOptions.__dataclass_fields__}
    return tls.client_context(parse(ClientOptions, {name: named[name] for name in known}))


def read_file(url: SplitResult) -> str:
    """The text of the file that a file:// URL names. OSError if it cannot be read."""
    file = Path(unquote(url.path))
    if not file.is_file():  # a pipe would block, and a device has no end
        raise FileNotFoundError(2, "there is no such file")
    with file.open("rb") as opened:
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"the file is longer than {MOST_BYTES} bytes")
    return content.decode("utf-8", "replace")


def reason(problem: Exception) -> str:
    """Why there was no answer, in a few words."""
    return (isinstance(problem, OSError) and problem.strerror) or str(problem)


def on_thread(name: str, read: Callable[[], str], done: Callable[[str, str], None]) -> None:
    """Read on a thread of its own, which calls `done` with the text, and why there is none."""

    def work() -> None:
        text, problem = "", ""
        try:
            text = read()
        except Exception as error:
            problem = reason(error) or repr(error)
        with suppress(RuntimeError):  # the loop is closed: the broker has stopped
            done(text, problem)

    Thread(target=work, name=name, daemon=True).start()  # it may wait for long, and nothing waits for it
