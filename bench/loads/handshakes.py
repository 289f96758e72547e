"""New TLS connections at a fixed pace: each sends the same ClientHello, waits for the first bytes of the answer, and
closes. The broker does all of its public-key arithmetic, this process none, so that it can offer a thousand a second.
Runs in a process of its own: python -m bench.loads.handshakes …
"""

import json
import selectors
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress

MOST_OPEN = 2000


class Handshakes:
    """A load that runs for `seconds` from `__init__` on."""

    def __init__(self, port: int, rate: int, seconds: float) -> None:
        command = [sys.executable, "-m", __spec__.name, str(port), str(rate), str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def wait(self) -> dict[str, float]:
        """Figures: connections `offered` and `answered`, and how long it took in `seconds`."""
        output, _ = self._process.communicate(timeout=300)
        found: dict[str, float] = json.loads(output)
        return found


def client_hello() -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    hello = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost").do_handshake()
    return hello.read()


def offer(port: int, rate: int, seconds: float) -> dict[str, float]:
    hello = client_hello()
    selector = selectors.DefaultSelector()
    offered = answered = 0
    begin = time.perf_counter()
    while (passed := time.perf_counter() - begin) < seconds or selector.get_map():
        while offered < min(passed, seconds) * rate and len(selector.get_map()) < MOST_OPEN:
            sock = socket.create_connection(("127.0.0.1", port), timeout=30)
            sock.sendall(hello)
            selector.register(sock, selectors.EVENT_READ)
            offered += 1
        for key, _ in selector.select(0.001) if selector.get_map() else ():
            assert isinstance(key.fileobj, socket.socket)
            with suppress(OSError):
                answered += bool(key.fileobj.recv(65_536))
            selector.unregister(key.fileobj)
            key.fileobj.close()
        if passed > seconds + 30:
            break
    return {"offered": offered, "answered": answered, "seconds": time.perf_counter() - begin}


if __name__ == "__main__":
    print(json.dumps(offer(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
