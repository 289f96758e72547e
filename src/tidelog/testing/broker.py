"""One broker of a cluster in this process, on an event loop in a thread of its own.

Each broker has its own loop so that it can end as a process does: its loop stops, its sockets close, its session ends,
and no other broker is affected.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from tidelog.config.broker import BrokerConfig
from tidelog.model import INTER_BROKER_LISTENER, Endpoint
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.hosting import HostedBroker

START_S = 30.0
STOP_S = 60.0
MAX_LOG_LINES = 10_000


class BrokerCrashed(Exception):
    """A broker failed with an exception; its traceback is on stderr."""


class RecordingLogger(EventLogger):
    """Keeps log lines for tests, as (level, kind, fields); prints only errors."""

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self.lines: deque[tuple[str, str, dict[str, object]]] = deque(maxlen=MAX_LOG_LINES)

    def print(self, level: str, kind: str, fields: Mapping[str, object]) -> None:
        self.lines.append((level, kind, dict(fields)))
        if level == "error":
            super().print(level, kind, fields)


class Broker:
    """A broker that can be started, stopped and killed. `port` is 0 until the first start and then stays the same;
    `brokers_port`, the port of the listener between brokers, changes at each start. `logger` has its log lines."""

    def __init__(self, number: int, folder: Path, options: Mapping[str, str], protocol: str = "PLAINTEXT") -> None:
        self.id = number
        self.folder = folder
        self.port = self.brokers_port = 0
        self.crashed = False
        self.logger = RecordingLogger(f"broker-{number}")
        self._options = options
        self._protocol = protocol
        self._hosted: HostedBroker | None = None
        self._thread: Thread | None = None

    def __repr__(self) -> str:
        return f"Broker({self.id} on port {self.port}, {'running' if self.is_running else 'down'})"

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "SimpleQueue[BaseException | None]":
        """Start the thread; the queue receives None when the broker listens, or the exception that prevented it."""
        assert not self.is_running, self
        began: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(began,), name=f"broker-{self.id}", daemon=True)
        self._thread.start()
        return began

    def _run(self, began: "SimpleQueue[BaseException | None]") -> None:
        def opened(hosted: HostedBroker) -> None:
            self._remember(hosted.endpoints)
            began.put(None)

        try:
            self._hosted = HostedBroker(BrokerConfig(self.properties()), self.logger, opened)
            self.crashed |= self._hosted.run() != 0
        except Exception as error:  # noqa: BLE001 (raised by the caller of `start`)
            began.put(error)

    def properties(self) -> dict[str, str]:
        return {
            "node.id": str(self.id),
            "listeners": f"{self._protocol}://{self.address},{INTER_BROKER_LISTENER}://127.0.0.1:0",
            "log.dirs": str(self.folder),
            **self._options,
        }

    def _remember(self, endpoints: Sequence[Endpoint]) -> None:
        self.port = endpoints[0].port
        self.brokers_port = next((each.port for each in endpoints if each.listener == INTER_BROKER_LISTENER), 0)

    def stop(self) -> None:
        """Stop cleanly: the broker hands over its partitions and closes its logs."""
        if self._hosted is not None:
            self._hosted.stop()
        self._join()

    def kill(self) -> None:
        """Stop as SIGKILL would: connections drop, and nothing more is written."""
        if self._hosted is not None:
            self._hosted.kill()
        self._join()

    def _join(self) -> None:
        thread, self._thread, self._hosted = self._thread, None, None
        if thread is not None:
            thread.join(STOP_S)
            if thread.is_alive():
                raise TimeoutError(f"broker {self.id} did not end within {STOP_S:g} s")

    def wait_for_line(self, kind: str, within_s: float = START_S, **fields: str) -> dict[str, object]:
        """The fields of the last log line of this kind whose named fields contain these texts, once there is one."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with suppress(RuntimeError):  # the deque changed during iteration
                for _, found, line in reversed(self.logger.lines):
                    if found == kind and all(text in str(line.get(name)) for name, text in fields.items()):
                        return line
            time.sleep(0.005)
        wanted = " ".join([kind, *(f"{name}=…{text}…" for name, text in fields.items())])
        raise TimeoutError(f"broker {self.id} logged no {wanted} within {within_s:g} s")
