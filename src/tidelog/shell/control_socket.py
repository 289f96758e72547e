"""The socket in a cluster's data folder through which `tidelog down` and `tidelog broker` reach its supervisor.

A client sends one line and receives one: `ok`, or what was wrong. To stop the cluster it waits until the connection
ends, which is when the supervisor's process does. Only the owner of the folder may connect.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

SOCKET_FILE = "up.socket"
DOWN, DONE = "down", "ok"
LINE_BYTES = 4096
READ_WITHIN_S = 1.0
ANSWER_WITHIN_S = 150.0
"""A broker may take 30 s to stop and 60 s to start, and there may be several of them."""


class ControlFailed(Exception):
    """The supervisor did not do what was requested; the message says why."""


class NotRunning(ControlFailed):
    """No cluster runs in the folder."""


class ControlSocket:
    """The supervisor's side. `handle` gets a line such as `stop 1`; ControlFailed answers its message."""

    def __init__(self, folder: Path, handle: Callable[[str], None]) -> None:
        self._path = folder / SOCKET_FILE
        self._handle = handle
        self._held: list[socket.socket] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path.unlink(missing_ok=True)  # of a supervisor that was killed
        before = os.umask(0o177)
        try:
            with _short(folder) as name:
                self._socket.bind(name)
        finally:
            os.umask(before)
        self._socket.listen()

    def __repr__(self) -> str:
        return f"ControlSocket({self._path})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve(self) -> None:
        """Answer one client that has connected."""
        client, _ = self._socket.accept()
        client.settimeout(READ_WITHIN_S)
        try:
            line = client.makefile("rb").readline(LINE_BYTES).decode(errors="replace").strip()
            client.sendall(self._answer(line, client))
        except OSError:
            client.close()  # it went away
            return
        if client not in self._held:
            client.close()

    def _answer(self, line: str, client: socket.socket) -> bytes:
        if line == DOWN:
            self._held.append(client)  # until the process ends
        try:
            self._handle(line)
        except ControlFailed as error:
            return f"{error}\n".encode()
        return f"{DONE}\n".encode()


def is_served(folder: Path) -> bool:
    """Whether a supervisor runs the cluster in the folder."""
    try:
        with _connected(folder):
            return True
    except NotRunning:
        return False


def request(folder: Path, line: str) -> None:
    """Have the supervisor do something; ControlFailed if it cannot."""
    with _connected(folder) as client:
        try:
            client.sendall(line.encode() + b"\n")
            answer = client.makefile("rb").read().decode().strip()
        except TimeoutError:
            raise ControlFailed(f"The cluster in {folder} did not finish within {ANSWER_WITHIN_S:g} s.") from None
        except OSError as error:
            raise NotRunning(f"The cluster in {folder} ended meanwhile ({error.strerror}).") from None
    if answer != DONE:
        raise ControlFailed(answer or f"The cluster in {folder} ended meanwhile.")


@contextmanager
def _connected(folder: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(ANSWER_WITHIN_S)
        try:
            with _short(folder) as name:
                client.connect(name)
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            raise NotRunning(f"No cluster of `tidelog up` is running in {folder}.") from None
        yield client


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A name of the socket with few characters: the kernel allows 107, and a folder's path may have more."""
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET_FILE}"
    finally:
        os.close(fd)
