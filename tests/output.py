"""What another process prints, line by line, with a deadline: a process that says nothing fails its test within it, and
not at the end of pytest's patience, where nobody sees what was waited for."""

import os
import select
import time
from collections.abc import Iterator
from typing import IO, AnyStr, cast

from tests.waiting import PATIENCE_S


def read_line(stream: IO[AnyStr] | None, within_s: float = PATIENCE_S) -> AnyStr:
    """Return the next line of a pipe, or what is left of it at its end; fail if neither comes within `within_s` seconds.

    Nothing behind the line is read, so `communicate` still finds it: bytes are read one by one, past the stream's buffer.
    """
    assert stream is not None, "not a pipe"
    pipe, line, deadline = stream.fileno(), b"", time.monotonic() + within_s
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    while not line.endswith(b"\n"):
        said = waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        assert said, f"no line within {within_s:g} s, only {line!r}"
        if not (byte := os.read(pipe, 1)):
            break
        line += byte
    return cast("AnyStr", line.decode() if hasattr(stream, "encoding") else line)


def line_with(stream: IO[str] | None, text: str, within_s: float = PATIENCE_S) -> str:
    """Return the first line that contains the text; fail with all lines if there is none."""
    lines, deadline = list[str](), time.monotonic() + within_s
    while line := read_line(stream, max(0.001, deadline - time.monotonic())):
        if text in line:
            return line.rstrip("\n")
        lines.append(line)
    raise AssertionError(f"the output ended without {text!r}: {''.join(lines)}")


def lines_of(stream: IO[AnyStr] | None) -> Iterator[AnyStr]:
    """Yield all lines until the process ends: for a thread that follows it, and that nobody waits for without a deadline."""
    assert stream is not None, "not a pipe"
    yield from stream
