"""Apache Kafka's own tools, which are Java: in a process of their own each, or one after the other in one JVM.

A tool's JVM takes a second of processor to start, and most tools are done a tenth of that later. `ToolServer` is one JVM
(`java/ToolServer.java`) that runs as many as it is asked to; `run_alone` is the process that an operator starts.
"""

import os
import select
import signal
import struct
import subprocess
import time
from pathlib import Path
from typing import Self

from tests import jvm

SOURCE = Path(__file__).parent / "java" / "ToolServer.java"
UNKNOWN_CODE = -(2**31)
MOST_DAEMONS = 20
"""So many idle threads of tools that do not close their client, as TransactionsCommand, before there is a new JVM."""
NEEDS_A_PROCESS = frozenset(
    f"org.apache.kafka.tools.{name}"
    for name in ("VerifiableProducer", "VerifiableConsumer", "VerifiableShareConsumer", "ReplicaVerificationTool")
)
"""These end in a shutdown hook of the JVM, which is where VerifiableProducer prints its sums."""

Told = subprocess.CompletedProcess[str]


def run_alone(libs: str, main: str, *arguments: str, given: str = "", within_s: float = 180) -> Told:
    """In a process of its own."""
    command = ["java", "-Xmx256m", *jvm.KAFKA, "-cp", libs, main, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=within_s, check=False)


class ToolServer:
    """Use as a context; the JVM starts with the first tool. It says on its stderr, a file, what it says besides."""

    def __init__(self, libs: str, folder: Path) -> None:
        self._libs = libs
        self._log = folder / "tool-server.log"
        self.token_file = folder / "token.jwt"
        """Clients may read a token from here: Java's need a list of allowed URLs."""
        self._process: subprocess.Popen[bytes] | None = None
        self._daemons = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def run(self, main: str, *arguments: str, given: str = "", within_s: float = 180) -> Told:
        """As `run_alone`. A tool that takes too long is a failure with what each thread of the JVM does."""
        if main in NEEDS_A_PROCESS:
            return run_alone(self._libs, main, *arguments, given=given, within_s=within_s)
        process = self._started()
        assert process.stdin is not None
        strings = [text.encode() for text in (main, given, *arguments)]
        request = b"".join(struct.pack(">i", len(text)) + text for text in strings)
        process.stdin.write(struct.pack(">i", len(strings)) + request)
        process.stdin.flush()
        deadline = time.monotonic() + within_s
        code = self._number(deadline)
        out, err = (self._read(self._number(deadline), deadline).decode() for _ in range(2))
        working, daemons = self._number(deadline), self._number(deadline)
        self._daemons += daemons
        if code == UNKNOWN_CODE:
            code = process.wait(within_s)
        if working or self._daemons > MOST_DAEMONS or process.poll() is not None:
            self._stop()
        return Told([main, *arguments], code, out, err)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{self.token_file}"
            flags = ("-Xmx512m", *jvm.KAFKA, "-XX:+DisplayVMOutputToStderr", allowed)
            command = ["java", *flags, "-cp", self._libs, str(SOURCE)]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        return self._process

    def _number(self, deadline: float) -> int:
        (number,) = struct.unpack(">i", self._read(4, deadline))
        return int(number)

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe, found = self._process.stdout.fileno(), b""
        while len(found) < count:
            readable, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(pipe, count - len(found)) if readable else b""
            if not part:
                self._give_up("ended" if readable else "is not done in time")
            found += part
        return found

    def _give_up(self, why: str) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # the JVM writes down what its threads do
        time.sleep(1)
        self._stop()
        text = self._log.read_text(encoding="utf-8", errors="replace")
        raise AssertionError(f"the JVM of Kafka's tools {why}:\n{text[-20_000:]}")

    def _stop(self) -> None:
        if (process := self._process) is not None:
            self._process, self._daemons = None, 0
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
