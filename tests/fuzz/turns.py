"""Runs a broker, and keeps the longest turn of its event loop in a file of eight bytes: nanoseconds of processor time.

    python tests/fuzz/turns.py FILE python -m tidelog.shell.broker …

A turn is one input of the node with the effects that follow from it. Waiting for a disk or for the processor does not
count.
"""

import mmap
import runpy
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.shell.server import Server

_NANOSECONDS = struct.Struct("<q")


class LongestTurn:
    """Shared by the broker and its test; both may set it."""

    def __init__(self, file: Path) -> None:
        if not file.exists():
            file.write_bytes(bytes(_NANOSECONDS.size))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _NANOSECONDS.size)

    @property
    def ns(self) -> int:
        found: int = _NANOSECONDS.unpack_from(self._shared)[0]
        return found

    @ns.setter
    def ns(self, value: int) -> None:
        _NANOSECONDS.pack_into(self._shared, 0, value)


def measured(function: Callable[..., None], longest: LongestTurn) -> Callable[..., None]:
    def run(*arguments: Any) -> None:
        begun = time.thread_time_ns()
        try:
            function(*arguments)
        finally:
            took = time.thread_time_ns() - begun
            longest.ns = max(longest.ns, took)

    return run


def main() -> None:
    longest = LongestTurn(Path(sys.argv[1]))
    for name in ("notify", "frames_received"):
        setattr(Server, name, measured(getattr(Server, name), longest))
    module = sys.argv[sys.argv.index("-m") + 1]
    sys.argv = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
