"""The world of one seed: virtual time, a heap of actions, the brokers' hosts, and the faults that hit them.

Everything is an action at a time (microseconds); actions of the same time run in the order in which they were
scheduled. All randomness comes from the seed.
"""

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from traceback import format_exception
from typing import Any, Protocol

from tidelog.effects import Event
from tidelog.model import INTER_BROKER_LISTENER, Endpoint
from tidelog.sim.checks.costs import Meter
from tidelog.sim.disk import SimDisk
from tidelog.sim.faults import KILL, Faults
from tidelog.sim.host import Broker, Host
from tidelog.sim.logged_tree import LoggedTree
from tidelog.sim.network import End, Network
from tidelog.sim.store import Tree
from tidelog.sim.trace import FrameText, Trace, plain

CLIENT_LISTENER = "PLAINTEXT"
CLIENT_PORT = 9092
BROKER_PORT = 9093
CONTROLLER_PORT = 9094
CONTROLLER_LISTENER = "CONTROLLER"
ROOT = "/data"

Build = Callable[[Host], Broker]


class Violation(AssertionError):
    """An invariant does not hold. The message has the seed, the step, the last lines of the trace, and the reason."""


class Observer(Protocol):
    """Invariants and ghosts: they see every step and every event, and raise `AssertionError`."""

    def stepped(self, world: "World", host: Host) -> None: ...

    def happened(self, world: "World", host: Host, event: Event) -> None: ...

    def ended(self, world: "World", host: Host, how: str) -> None: ...

    def tree_changed(self, world: "World") -> None: ...


class Witness(Protocol):
    """Sees what brokers receive and send, byte for byte, for checks that do not trust a broker's own account."""

    def starting(self, host: Host) -> None:
        """A process is about to start on what its disk holds."""

    def received(self, host: Host, end: End, frames: Sequence[memoryview]) -> None:
        """The node is about to process these frames."""

    def sent(self, host: Host, end: End, data: bytes) -> None:
        """The node sends whole frames, lengths included."""


class World:
    """`build` creates the node of a host, with the host's config, disk and endpoints. `folders` are the log directories
    of every host. With `quorum` the brokers keep the metadata tree themselves, and `tree` follows what they commit.
    """

    def __init__(
        self,
        seed: int,
        build: Build,
        *,
        brokers: int = 3,
        faults: Faults | None = None,
        folders: Sequence[str] = (ROOT,),
        quorum: bool = False,
    ) -> None:
        self.seed = seed
        self.build = build
        # The order of draws is part of a seed's run: a new draw here makes every kept seed another run.
        self.random = Random(seed)
        self.faults = faults or Faults()
        self.folder_dice: Random | None = None
        """Draws how long fsyncs of log folders take; None: no time."""
        self.micros = 0
        """The virtual time."""
        self.trace = Trace()
        self.meter = Meter()
        self.tree = LoggedTree() if quorum else Tree()
        self.refetching: frozenset[int] = frozenset()
        """Brokers that may lose their metadata log, since they do not vote: they fetch it again."""
        self.network = Network(self, self.faults.weather)
        self.observers: list[Observer] = []
        self.witnesses: list[Witness] = []
        self.counts: dict[str, int] = {}
        """How often each kind of event and fault happened."""
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        """(time, number, action): by the number, actions of the same time run in the order of their scheduling."""
        self._planned = 0
        self.hosts = [self._new_host(broker, folders) for broker in range(brokers)]

    def __repr__(self) -> str:
        return f"World(seed={self.seed}, {self.micros / 1e6:.3f} s, {len(self._heap)} planned)"

    def _new_host(self, broker: int, folders: Sequence[str]) -> Host:
        name = f"broker-{broker}"
        endpoints = [
            Endpoint(CLIENT_LISTENER, "PLAINTEXT", name, CLIENT_PORT),
            Endpoint(INTER_BROKER_LISTENER, "PLAINTEXT", name, BROKER_PORT),
        ]
        if isinstance(self.tree, LoggedTree):
            endpoints.append(Endpoint(CONTROLLER_LISTENER, "PLAINTEXT", name, CONTROLLER_PORT))
        return Host(self, broker, endpoints, SimDisk(list(folders), Random(self.random.getrandbits(64))))

    # Time.

    def after(self, delay: int, action: Callable[[], None]) -> None:
        assert delay >= 0
        self._planned += 1
        heapq.heappush(self._heap, (self.micros + delay, self._planned, action))

    def run(self, duration: int, until: Callable[[], bool] | None = None) -> bool:
        """Let `duration` microseconds pass, or less, until the condition holds; return whether it does."""
        end = self.micros + duration
        try:
            holds = self._run_to(end, until)
        except Violation:
            raise
        except Exception as error:
            what = str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
            raise self.violation(f"{what}\n{''.join(format_exception(error))}{what}") from error
        if not holds:
            self.micros = end
        return holds

    def _run_to(self, end: int, until: Callable[[], bool] | None) -> bool:
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= end:
            if until is not None and until():
                return True
            self.micros, _, action = pop(heap)
            action()
        return until is not None and until()

    def violation(self, what: str) -> Violation:
        return Violation(f"seed {self.seed}, step {self.trace.step}: {what}\n{self.trace.transcript()}\n{what}")

    # Notifications of observers and the trace.

    def note(self, who: str, what: str, detail: Any = "") -> None:
        self.trace.line(self.micros, who, what, str(plain(detail)))

    def listen_in(self) -> None:
        """Add every frame to the transcript as text. The digest stays the same."""
        talk = FrameText()

        def record(end: End, data: bytes) -> None:
            for line in talk.of(end, data):
                self.trace.remark(self.micros, end.party.name, "says", line)

        self.network.on_send = record

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def stepped(self, host: Host) -> None:
        for observer in self.observers:
            observer.stepped(self, host)

    def happened(self, host: Host, event: Event) -> None:
        self.count(event.kind)
        assert event.kind != "request.failed", f"{host.name} has a fault: {event.fields}"
        for observer in self.observers:
            observer.happened(self, host, event)

    def ended(self, host: Host, how: str) -> None:
        self.note(host.name, how.upper())
        self.count(how)
        for observer in self.observers:
            observer.ended(self, host, how)

    def tree_changed(self) -> None:
        """Notify every session whose watched paths changed."""
        for observer in self.observers:
            observer.tree_changed(self)
        for host in self.hosts:
            life = host.life
            if life is not None and life.session is not None:
                for path in life.session.events():
                    delay = host.silence + host.random.randint(*self.faults.event_delay)
                    life.after(delay, partial(life.deliver, "store_event", path))

    # What happens to brokers.

    def start(self) -> None:
        for host in self.hosts:
            self.after(self.random.randint(0, 20_000), host.start)

    def kill(self, host: Host) -> None:
        """SIGKILL: the page cache survives, the session ends at once."""
        self.end(host, "kill", expiry=host.random.randint(0, 3_000))
        host.disk.kill()

    def lose_power(self, host: Host) -> None:
        """Only what was synced survives; the session ends after its term, peers are not notified."""
        self.end(host, "power loss", expiry=self.faults.session_term)
        host.disk.lose_power()

    def keeps_folders(self, host: Host) -> bool:
        """Whether no folder of the machine may be lost: with that of its metadata log, an operator would have to remove
        and add a voter."""
        return isinstance(self.tree, LoggedTree) and host.broker_id not in self.refetching

    def replace_disk(self, host: Host) -> None:
        """The machine, which is down, gets an empty disk, if it may lose its folders."""
        if not self.keeps_folders(host):
            host.disk.erase()

    def cut_off(self, host: Host) -> None:
        """The disk reached the operation at which the power fails or the process is killed. Until the action
        that ends it runs, the process is paused and handles no input."""
        self.after(0, partial(self.kill if host.disk.ends_by == KILL else self.lose_power, host))
        if host.life is not None:
            host.life.paused = True

    def end(self, host: Host, how: str, expiry: int) -> None:
        session = host.life.session if host.life is not None else None
        host.end_life(silent=how == "power loss")
        self.ended(host, how)
        if session is not None:
            self.after(expiry, partial(self.expire, session.session))

    def expire(self, session: int) -> None:
        if session in self.tree.sessions:
            self.note("store", "expire", session)
            self.tree.expire(session)
            self.tree_changed()

    def stop(self, host: Host) -> None:
        """SIGTERM: the node stops cleanly and reports when it is finished."""
        if host.life is not None and not host.life.stopping:
            host.life.stopping = True
            host.life.deliver("stop")

    def stopped(self, host: Host, reason: str) -> None:
        """The node is finished: as requested, or because it could not continue."""
        assert host.life is not None
        host.stopped_because = reason
        session = host.life.session
        host.end_life(silent=False)
        host.disk.kill()
        self.ended(host, "stop" if not reason else "halt")
        if session is not None:
            self.expire(session.session)

    def pause(self, host: Host, duration: int) -> None:
        """SIGSTOP, and SIGCONT after `duration`: if that is longer than the term, the session is gone
        when it wakes.
        """
        life = host.life
        if life is None or life.paused:
            return
        life.pause()
        self.note(host.name, "PAUSE", f"{duration / 1e6:.3f} s")
        self.count("pause")
        term = self.faults.session_term - host.random.randint(0, self.faults.session_term // 3)
        if duration > term and not isinstance(self.tree, LoggedTree):
            life.after(term, partial(self._expire_while_paused, host))
        life.after(duration, partial(self.resume, host))

    def _expire_while_paused(self, host: Host) -> None:
        """Expire the session, unless the process was resumed early because everything was healed."""
        if host.life is not None and host.life.paused and not host.life.busy:
            self.lose_session(host)

    def resume(self, host: Host) -> None:
        if host.life is not None:
            self.note(host.name, "RESUME")
            host.life.resume()

    def lose_session(self, host: Host, notice_delay: int = 0) -> None:
        """Expire the broker's session.

        The broker is notified later, at the earliest after `notice_delay` microseconds, and then opens a new session.
        With a metadata quorum the process stands still for longer than its session lasts.
        """
        if isinstance(self.tree, LoggedTree):
            self.pause(host, self.faults.session_term + host.random.randint(0, 500_000))
            return
        life = host.life
        if life is None or life.session is None or not life.session.alive:
            return
        self.expire(life.session.session)
        self.count("session expiry")
        delay = max(life.carrier.answered_at - self.micros, notice_delay) + host.random.randint(
            *self.faults.expiry_notice
        )
        life.after(delay, partial(life.deliver, "session_lost"))
        reopen = delay + host.random.randint(1_000, 500_000)
        life.after(reopen, partial(self._reopen, host, life.session.session))

    def _reopen(self, host: Host, lost: int) -> None:
        life = host.life
        if life is None:
            return
        if life.paused:
            life.backlog.append(partial(self._reopen, host, lost))
        elif life.session is not None and life.session.session == lost:
            life.open_session()
