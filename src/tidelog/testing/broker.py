"""One broker of a cluster in this process, on an event loop in a thread of its own.

Each broker has its own loop so that it can end as a process does: its loop stops, its sockets close, its session ends,
and no other broker is affected.
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from tidelog.config.broker import BrokerConfig
from tidelog.model import INTER_BROKER_LISTENER, Endpoint
from tidelog.quorum.formatting import InitialVoter
from tidelog.shell.event_logger import EventLogger, plain_text
from tidelog.shell.hosting import HostedBroker, Parts
from tidelog.shell.quorum import quorum_folders
from tidelog.testing.clocks import VirtualClock
from tidelog.testing.disks import DiskState, DisturbedDisk
from tidelog.testing.edge import DisturbedServer, Wire
from tidelog.testing.store_gate import StoreGate

T = TypeVar("T")

START_S = 30.0
STOP_S = 60.0
MAX_LOG_LINES = 10_000
PAUSED, PARTITIONED = "paused", "partitioned"
"""Why a broker does not reach the metadata store."""


class BrokerCrashed(Exception):
    """A broker failed with an exception; its traceback is on stderr."""


class Reach(NamedTuple):
    """The brokers that a broker cannot reach, and whether it reaches the metadata store, and clients reach it."""

    unreachable: Collection[int]
    store: bool
    clients: bool


class RecordingLogger(EventLogger):
    """Keeps log lines for tests, as (level, kind, fields); prints only errors."""

    def __init__(self, who: str) -> None:
        super().__init__(who)
        self.lines: deque[tuple[str, str, dict[str, object]]] = deque(maxlen=MAX_LOG_LINES)
        self._moments: deque[float] = deque(maxlen=MAX_LOG_LINES)
        """When each line was written, on the monotonic clock."""

    def print(self, level: str, kind: str, fields: Mapping[str, object]) -> None:
        self._moments.append(time.monotonic())
        self.lines.append((level, kind, dict(fields)))
        if level == "error":
            super().print(level, kind, fields)

    def text_since(self, moment: float) -> list[str]:
        """The lines from this monotonic time on, with seconds since then; those for timelines only are left out."""
        return [
            f"{at - moment:8.3f} s {level.upper()} {plain_text(kind, fields)}"
            for at, (level, kind, fields) in zip(self._moments.copy(), self.lines.copy(), strict=False)
            if at >= moment and level != "debug"
        ]


class Broker:
    """A broker that can be started, stopped, killed and paused. `port` is 0 until the first start and then stays the
    same; `brokers_port`, the port of the listener between brokers, changes at each start. `logger` has its log
    lines."""

    def __init__(
        self,
        number: int,
        folder: Path,
        options: Mapping[str, str],
        *,
        protocol: str = "PLAINTEXT",
        wire: Wire,
    ) -> None:
        self.id = number
        self.wire = wire
        self.disk = DiskState()
        self.is_cut_off = False
        """Whether it is partitioned from the metadata store."""
        self._clock = VirtualClock()
        self.folder = folder
        self.port = self.brokers_port = 0
        self.crashed = False
        self.logger = RecordingLogger(f"broker-{number}")
        self._options = options
        self._protocol = protocol
        self._controllers: Sequence[str] = ()
        """The listeners of its controller, in a metadata quorum."""
        self._hosted: HostedBroker | None = None
        self._thread: Thread | None = None
        self._gate = StoreGate()
        self._pause: _Pause | None = None

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "running" if self.is_running else "down"
        return f"Broker({self.id} on port {self.port}, {state})"

    def join_quorum(self, voters: Sequence[InitialVoter]) -> None:
        """Be a member of a metadata quorum."""
        self._options = quorum_folders.joined(self._options, self.id, voters)
        self._controllers = quorum_folders.listeners_of(self.id, voters)

    @property
    def ports_of_nodes(self) -> set[int]:
        """Where other brokers connect."""
        return {self.brokers_port, *(int(each.rpartition(":")[2]) for each in self._controllers)}

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended; a paused broker is running."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> "SimpleQueue[BaseException | None]":
        """Start the thread; the queue receives None when the broker listens, or the exception that prevented it."""
        assert not self.is_running, self
        began: SimpleQueue[BaseException | None] = SimpleQueue()
        self._gate = StoreGate()
        self._thread = Thread(target=self._run, args=(began,), name=f"broker-{self.id}", daemon=True)
        self._thread.start()
        return began

    def _run(self, began: "SimpleQueue[BaseException | None]") -> None:
        def opened(hosted: HostedBroker) -> None:
            self._remember(hosted.endpoints)
            began.put(None)

        parts = Parts(
            server=partial(DisturbedServer, wire=self.wire, clock=self._clock),
            disk=partial(DisturbedDisk, state=self.disk),
            clock=self._clock.now,
            open_store=self._gate.open_store,
        )
        try:
            self._hosted = HostedBroker(BrokerConfig(self.properties()), self.logger, opened, parts)
            self.crashed |= self._hosted.run() != 0
        except Exception as error:  # noqa: BLE001 (raised by the caller of `start`)
            began.put(error)

    def properties(self) -> dict[str, str]:
        return {
            "node.id": str(self.id),
            "listeners": ",".join(
                (f"{self._protocol}://{self.address}", f"{INTER_BROKER_LISTENER}://127.0.0.1:0", *self._controllers)
            ),
            "log.dirs": str(self.folder),
            **self._options,
        }

    def _remember(self, endpoints: Sequence[Endpoint]) -> None:
        self.port = endpoints[0].port
        self.brokers_port = next((each.port for each in endpoints if each.listener == INTER_BROKER_LISTENER), 0)

    def stop(self) -> None:
        """Stop cleanly: the broker hands over its partitions and closes its logs."""
        self.resume()
        if self._hosted is not None:
            self._hosted.stop()
        self._join()

    def kill(self) -> None:
        """Stop as SIGKILL would: connections drop, and nothing more is written."""
        if self._hosted is not None:
            self._gate.end()
            if self._pause is not None:
                self._pause.end(kill=True)
                self._pause = None
            self._hosted.kill()
        self._join()

    def _join(self) -> None:
        thread, self._thread, self._hosted = self._thread, None, None
        if thread is not None:
            thread.join(STOP_S)
            if thread.is_alive():
                raise TimeoutError(f"broker {self.id} did not end within {STOP_S:g} s")

    def pause(self) -> None:
        """Stop its event loop as SIGSTOP would; return once it stands still."""
        if self._hosted is None or self._pause is not None:
            return
        pause = self._pause = _Pause(self._hosted)
        self._gate.close(PAUSED)
        with suppress(RuntimeError):  # the loop is closed: it has ended
            self._hosted.loop.call_soon_threadsafe(pause.hold)
            pause.began.wait(START_S)

    def resume(self) -> None:
        """Let a paused broker go on; nothing happens to others."""
        if self._pause is not None:
            self._pause.end(kill=False)
            self._pause = None
            self._gate.open(PAUSED)

    def set_unreachable(self, brokers: Collection[int], store: bool, clients: bool) -> None:
        """Let it reach all but these brokers, and the metadata store and clients or not."""
        self.wire.unreachable = frozenset(brokers)
        self.wire.serves_clients = clients
        self.is_cut_off = not store
        if store:
            self._gate.open(PARTITIONED)
        else:
            self._gate.close(PARTITIONED)
        self._on_server(DisturbedServer.cut_unreachable)

    def cut_connections(self) -> int:
        """Close the connections of its clients; how many there were."""
        return self._on_server(DisturbedServer.cut_connections) or 0

    def cut_peer(self, broker: int) -> None:
        """Close the connections that it opened to another broker."""
        self._on_server(lambda server: server.cut_peer(broker))

    @property
    def is_clock_moved(self) -> bool:
        return self._clock.is_moved

    def reset_clock(self) -> None:
        """Set its clock to that of the machine. It must be down."""
        assert not self.is_running, self
        self._clock = VirtualClock()

    def change_clock(self, change: Callable[[VirtualClock], None]) -> None:
        """Change its clock, and let it do at once what is then due: no request may come in between and be in time."""
        if not self.is_running or self.is_paused:
            change(self._clock)
        else:
            self._on_server(lambda server: server.change_clock(change))

    def lose_unflushed(self) -> None:
        """Leave in its folders what a power loss would. It must be down."""
        self.disk.lose_unflushed(BrokerConfig(self.properties()).folders)

    def _on_server(self, do: Callable[[DisturbedServer], T]) -> T | None:
        """Do this on the broker's loop; None if it is down or stands still."""
        if not self.is_running or self.is_paused:
            return None

        def run(hosted: HostedBroker) -> T:
            assert isinstance(hosted.server, DisturbedServer)
            return do(hosted.server)

        return self.call(run)

    def call(self, function: Callable[[HostedBroker], T]) -> T:
        """Call the function on the broker's loop, and return what it returns. The broker must be running."""
        hosted, result = self._hosted, Future[T]()
        assert hosted is not None, self

        def run() -> None:
            try:
                result.set_result(function(hosted))
            except BaseException as error:  # noqa: BLE001 (raised by the caller)
                result.set_exception(error)

        hosted.loop.call_soon_threadsafe(run)
        return result.result(START_S)

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


class _Pause:
    """Holds a broker's event loop between two callbacks."""

    def __init__(self, hosted: HostedBroker) -> None:
        self.began = Event()
        self._hosted = hosted
        self._over = Event()
        self._kill = False

    def hold(self) -> None:
        """Block the loop, on its own thread, until `end`."""
        self.began.set()
        self._over.wait()
        if self._kill and self._hosted.server is not None:
            self._hosted.server.stopping = True  # what is queued on the loop must not reach the node any more
            self._hosted.loop.stop()

    def end(self, *, kill: bool) -> None:
        self._kill = kill
        self._over.set()
