"""The cluster under test: broker processes, with a network and disks of their own if the machine allows."""

import shutil
import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from tidelog.check.chaos import schedule
from tidelog.check.chaos.machine import Disks, Network, NotAllowed
from tidelog.check.chaos.relay import BEHIND, LateRequest, Relay
from tidelog.model import INTER_BROKER_LISTENER
from tidelog.shell.child import STOP_S, Child
from tidelog.shell.supervisor import Supervisor, cluster_options, secure_child

OPTIONS = {
    "broker.session.timeout.ms": "2000",
    "request.timeout.ms": "5000",
    "replica.lag.time.max.ms": "2500",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "4",
}
"""Timeouts shorter than the defaults: a pause of seconds must cost a broker its session and its place in the ISR, and
requests that wait for it must time out."""

CLEANLY = ("with exit code 0", "with signal SIGTERM")
"""The normal ends of a broker that is asked to stop; one that has only just started ends by the signal itself."""

PORT = 9092
HOST = "127.0.0.1"
READY_S = 60.0
LATE_S = 15.0


class ChaosCluster:
    """`skipped`: fault → why the machine does not allow it. `unexpected_ends`: how brokers ended that were to run, or
    that did not stop cleanly. `late_s`: the longest time that the fault `late` holds requests. With `quorum` the
    brokers keep the metadata themselves."""

    def __init__(
        self,
        folder: Path,
        logs: Path,
        brokers: int,
        *,
        seed: int = 0,
        late_s: float = LATE_S,
        secure: bool = False,
        quorum: bool = False,
    ) -> None:
        self.folder = folder
        self.brokers = brokers
        self.late_s = late_s
        self.skipped: dict[str, str] = {}
        self.unexpected_ends: list[str] = []
        self._logs = logs
        self._exits = ExitStack()
        self.network: Network | None = None
        self.disks: Disks | None = None
        self.relays: list[Relay] = []
        self._seed = seed
        self._stopping: set[int] = set()
        self._full: set[int] = set()
        self._quorum = quorum
        self.supervisor = Supervisor(folder, brokers=brokers, port=0, secure=secure, quorum=quorum)

    def __repr__(self) -> str:
        return f"ChaosCluster({self.supervisor})"

    def __enter__(self) -> Self:
        with self._exits:
            try:
                self.network = self._exits.enter_context(Network(self.brokers))
            except NotAllowed as reason:
                self.skipped.update(dict.fromkeys(schedule.NETWORK_KINDS, f"no network namespaces: {reason}"))
            try:
                self.disks = self._exits.enter_context(Disks(self.folder, self.brokers))
            except NotAllowed as reason:
                self.skipped[schedule.FULL_DISK] = f"nothing can be mounted: {reason}"
            if self.supervisor.security is not None:
                self.skipped[schedule.LATE] = "a relay cannot read requests that are encrypted"
            else:
                self.relays = [self._exits.enter_context(self._relay(broker)) for broker in range(self.brokers)]
            self.supervisor.children = [self._child(broker) for broker in range(self.brokers)]
            self._exits.callback(self._end)
            self.supervisor.start()
            self._exits = self._exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def _relay(self, broker: int) -> Relay:
        seed = self._seed + broker
        if self.network is None:
            return Relay(broker, HOST, seed=seed)
        return Relay(broker, self.network.address(broker), seed=seed, enter=partial(self.network.enter, broker))

    def _child(self, broker: int) -> Child:
        options = {**cluster_options(self.folder, self.brokers, quorum=self._quorum), **OPTIONS}
        if self.disks is not None:
            options["log.dirs"] = str(self.disks.folder(broker))
        home, log = self.folder / f"broker-{broker}", self._logs / f"broker-{broker}.log"
        if self.network is None:
            child = Child(broker, home, HOST, 0, options, log=log)
        else:
            address, prefix = (self.network.address(broker), PORT), self.network.prefix(broker)
            child = Child(broker, home, *address, options, prefix=prefix, log=log)
        if self.supervisor.security is not None:
            secure_child(child, self.supervisor.security)
        else:
            relay = self.relays[broker]
            child.options = {**options, "advertised.listeners": f"{INTER_BROKER_LISTENER}://{relay.host}:{relay.port}"}
            child.more_listeners = (f"{INTER_BROKER_LISTENER}://{BEHIND}:{relay.port}",)
        return child

    def _end(self) -> None:
        for child in self.supervisor.children:
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        for child in self.supervisor.children:
            self._await_end(child)

    def _await_end(self, child: Child) -> None:
        """Wait for a broker that was asked to stop, and record an end that is late or not clean, unless its disk was
        full."""
        if child.process is None:
            return
        try:
            child.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            child.process.kill()
        pid, ended = child.pid, child.reap()
        if ended not in CLEANLY and child.number not in self._full:
            self.unexpected_ends.append(f"broker {child.number} (pid {pid}) was asked to stop and ended {ended}")

    def keep_disks(self, folder: Path) -> None:
        """Copy the disks that are removed with the cluster."""
        if self.disks is not None:
            for broker in range(self.brokers):
                shutil.copytree(self.disks.folder(broker), folder / f"logs-{broker}", dirs_exist_ok=True)

    # Actions of faults.

    def signal(self, broker: int, number: signal.Signals) -> None:
        self.supervisor.children[broker].signal(number)

    def kill(self, broker: int) -> None:
        if self._runs(broker):
            self.supervisor.kill(broker)

    def stop(self, broker: int) -> None:
        """Ask the broker to stop; `start` waits for its end."""
        self._stopping.add(broker)
        self.signal(broker, signal.SIGTERM)

    def start(self, broker: int) -> None:
        """Start the broker unless it runs, after waiting for one that was asked to stop."""
        child = self.supervisor.children[broker]
        self._await_end(child)
        self._stopping.discard(broker)
        self.supervisor.start_broker(broker)

    def fill(self, broker: int) -> None:
        assert self.disks is not None
        self._full.add(broker)
        self.disks.fill(broker)

    def free(self, broker: int) -> None:
        assert self.disks is not None
        self.disks.free(broker)
        self.stop(broker)
        self.start(broker)
        self._full.discard(broker)

    def hold(self, source: int, target: int) -> None:
        """Hold what `source` sends next on its connections to `target`."""
        self.relays[target].hold(source, self.late_s)

    def stop_holding(self, source: int, target: int) -> None:
        self.relays[target].stop_holding(source)

    def deliver(self) -> None:
        """Deliver everything that is held."""
        for relay in self.relays:
            relay.deliver()

    @property
    def late(self) -> list[LateRequest]:
        """The requests that arrived late so far, in order of arrival."""
        return sorted((each for relay in self.relays for each in relay.late), key=lambda each: each.arrived_at)

    def restart_ended(self) -> None:
        """Record and restart brokers that ended unexpectedly. A full disk is an excuse."""
        for child in self.supervisor.children:
            is_over = child.process is not None and child.process.poll() is not None
            if is_over and child.number not in self._full | self._stopping:
                self.unexpected_ends.append(f"broker {child.number} (pid {child.pid}) ended {child.reap()}")
                self.supervisor.start_broker(child.number)

    def _runs(self, broker: int) -> bool:
        process = self.supervisor.children[broker].process
        return process is not None and process.poll() is None
