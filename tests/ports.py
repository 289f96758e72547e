"""Ports of the loopback for servers that cannot take one by themselves.

No two processes are given the same port, and the kernel gives none of them to a client or to a server that asks for any:
each process that asks holds blocks of ports outside the kernel's own range, and gives each of its ports once.
"""

import atexit
import socket
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Lock

BLOCK = 200
LOWEST, HIGHEST = 10_000, 65_535


def _blocks() -> Iterator[range]:
    """Every block outside the range that the kernel gives from."""
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    for first in range(LOWEST, HIGHEST - BLOCK, BLOCK):
        if first + BLOCK <= low or first > high:
            yield range(first, first + BLOCK)


def _ports() -> Iterator[int]:
    for block in _blocks():
        # A name in the abstract namespace: the first process that binds it has the block, and its end frees it. Like
        # ports, these names are apart in each network namespace.
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0tidelog-tests-ports-{block.start}")
        except OSError:
            claim.close()
            continue
        atexit.register(claim.close)
        yield from filter(_is_free, block)
    raise AssertionError("every block of ports is taken by another process")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


_rest, _lock = _ports(), Lock()


def free_ports(count: int) -> list[int]:
    """So many ports that nobody listens on, each given only once."""
    with _lock:  # a generator runs on one thread at a time
        return list(islice(_rest, count))
