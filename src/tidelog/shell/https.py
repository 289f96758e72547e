"""One request to an HTTPS server: a token provider's. It blocks, so brokers make it on a thread.

Redirects and proxies are not followed: a request goes to the server that the configuration names.
"""

import http.client
import ssl
import time
from collections.abc import Mapping
from urllib.parse import SplitResult

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
