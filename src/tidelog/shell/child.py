"""One broker process as its supervisor sees it: configuration, process, and exit status."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidelog.config import properties
from tidelog.model import INTER_BROKER_LISTENER

STOP_S = 30.0
"""How long a broker may take to stop cleanly before it is killed."""


@dataclass(eq=False)
class Child:
    """`folder` is the broker's data: its logs, `server.properties`, and `pid` while it runs.

    `prefix` goes before the command line. `log` receives stderr instead of the supervisor's own stderr.
    `more_listeners` follow the clients' listener in `listeners`, replacing the inter-broker listener on a free port.

    The child's stdin is a pipe that closes when the supervisor ends, even if it is killed; the child prints its
    listeners on stdout.

    `protocol` is that of the clients' listener. `umask` is that of the process; -1 leaves it as it is.
    """

    number: int
    folder: Path
    host: str
    port: int
    options: Mapping[str, str]
    process: "subprocess.Popen[bytes] | None" = None
    pidfd: int = -1
    listening: bool = False
    prefix: Sequence[str] = ()
    log: Path | None = None
    more_listeners: Sequence[str] = ()
    protocol: str = "PLAINTEXT"
    umask: int = -1
    _log_starts_at: int = 0

    def __repr__(self) -> str:
        return f"Child(broker {self.number}, port {self.port}, pid {self.pid})"

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def start(self) -> None:
        assert self.process is None, self
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "server.properties"
        file.touch(mode=0o600)
        file.chmod(0o600)  # an override may be a password
        file.write_text(properties.text(self.properties()), encoding="utf-8")
        command = [*self.prefix, sys.executable, "-m", "tidelog.shell.broker", str(file), "--supervised"]
        with ExitStack() as stack:
            log = None if self.log is None else stack.enter_context(open(self.log, "ab", opener=self._open_log))
            # Its own process group: Ctrl-C in a terminal reaches only the supervisor, which then stops the brokers.
            self.process = subprocess.Popen(  # noqa: S603 (our own program)
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, process_group=0, umask=self.umask
            )
        self.pidfd = os.pidfd_open(self.process.pid)
        self.listening = False
        (self.folder / "pid").write_text(f"{self.process.pid}\n", encoding="ascii")

    def _open_log(self, path: str, flags: int) -> int:
        """Open the log with the umask of the process that will write it, and note where its lines begin."""
        mode = 0o666 if self.umask < 0 else 0o666 & ~self.umask
        fd = os.open(path, flags, mode)
        self._log_starts_at = os.fstat(fd).st_size
        return fd

    def last_line(self) -> str:
        """The last line in `log` since the start; "" if there is none, or no log."""
        if self.log is None:
            return ""
        with self.log.open("rb") as file:
            file.seek(self._log_starts_at)
            lines = file.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def properties(self) -> dict[str, str]:
        """The broker's options."""
        between = self.more_listeners or (f"{INTER_BROKER_LISTENER}://{self.host}:0",)
        return {
            "node.id": str(self.number),
            "listeners": ",".join((f"{self.protocol}://{self.host}:{self.port}", *between)),
            "log.dirs": str(self.folder),
            **self.options,
        }

    def wait_listening(self, within_s: float) -> bool:
        """Wait for the line that reports the listeners; False if the broker ended without it, TimeoutError if neither
        happens. Port 0 becomes the bound port and stays the same in later starts."""
        assert self.process is not None
        assert self.process.stdout is not None
        if self.listening:
            return True
        if not select.select([self.process.stdout], [], [], max(0.0, within_s))[0]:
            raise TimeoutError
        line = self.process.stdout.readline().decode()
        if not line.startswith("listening "):
            return False
        first = line.split()[1].split(",")[0]
        self.port = int(first.rpartition(":")[2])
        self.listening = True
        return True

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def reap(self) -> str:
        """Reap the process and describe how it ended."""
        assert self.process is not None
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        os.close(self.pidfd)
        self.process = None
        (self.folder / "pid").unlink(missing_ok=True)
        return f"with signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"

    def stop(self) -> None:
        """Wait for the process after SIGTERM, and kill it if it does not end in time."""
        if self.process is not None:
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
            self.reap()
