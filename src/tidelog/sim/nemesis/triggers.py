"""Faults that wait for a situation: they are armed when their number comes up, and strike once.

Between append and high watermark, between a commit of the controller and its pushes to the brokers, after a truncation
or an election, and within the disk operation that creates a segment, writes a checkpoint, or renames a directory last.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from tidelog.effects import Event
from tidelog.partition.leader import Leader
from tidelog.sim.faults import GO_ON, MILLI, SECOND, Fault
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import HITS, Kind, Strike, Trigger

EVENTS = ("log.truncate", "partition.leader", "controller.elected", "controller.resigned", "replica.deleted")
FILES = (
    ("create", ".log"),
    ("write", ".log"),
    ("sync", ".log"),
    ("truncate", ".log"),
    ("create", ".index"),
    ("write", ".timeindex"),
    ("create", ".snapshot"),
    ("rename", ".swap"),
    ("rename", ".cleaned"),
    ("remove", ".deleted"),
    ("rename", "-delete"),
    ("create", "partition.metadata"),
    ("write", "leader-epoch-checkpoint"),
)
CHECKPOINT_STEPS = ("create", "write", "sync", "rename")


class AtEvent(Trigger):
    def __init__(self, strike: Strike, kind: str, what: str, delay: int) -> None:
        super().__init__(strike)
        self.kind, self.what, self.delay = kind, what, delay

    def happened(self, host: Host, event: Event) -> None:
        if event.kind == self.kind:
            self.fire(host, self.delay, self.what)


class AfterAppend(Trigger):
    """Wait until a leader has records that are not committed yet."""

    def __init__(self, strike: Strike, what: str, skips: int) -> None:
        super().__init__(strike)
        self.what, self.skips = what, skips

    def stepped(self, host: Host) -> None:
        if not host.running:
            return
        for partition in cast("Any", host.node).replicas:
            ahead = partition.log.log_end_offset > partition.high_watermark
            if ahead and isinstance(partition.role, Leader) and not partition.failed:
                self.skips -= 1
                if self.skips < 0:
                    self.fire(host, 0, self.what)
                return


class AfterCommit(Trigger):
    """Wait until the store applied a change of the controller, which does not know so yet or has notified nobody."""

    def __init__(self, strike: Strike, what: str, delay: int, skips: int) -> None:
        super().__init__(strike)
        self.what, self.delay, self.skips = what, delay, skips

    def tree_changed(self) -> None:
        host = self.strike.nemesis.cluster.controller
        if host is None or not host.running:
            return
        self.skips -= 1
        if self.skips < 0:
            self.fire(host, self.delay, self.what)


def _hit(strike: Strike) -> str:
    return strike.random.choice(sorted(HITS))


# Kinds.


def at_event(strike: Strike) -> None:
    delay = strike.random.randint(0, strike.random.choice((0, 2 * MILLI, 300 * MILLI)))
    strike.arm(AtEvent(strike, strike.random.choice(EVENTS), _hit(strike), delay))


def cut_after_truncation(strike: Strike) -> None:
    """Kill a broker, which makes a truncation likely, and cut the power while the truncation is being written."""
    host = strike.running()
    if host is not None:
        strike.arm(AtEvent(strike, "log.truncate", "power", strike.random.randint(0, 300 * MILLI)))
        strike.world.kill(host)


def after_append(strike: Strike) -> None:
    strike.arm(AfterAppend(strike, _hit(strike), strike.random.randint(0, 5)))


def after_commit(strike: Strike) -> None:
    slowest = strike.world.faults.store_delay[1]
    delay = strike.random.randint(0, strike.random.choice((0, slowest, 3 * slowest)))
    strike.arm(AfterCommit(strike, _hit(strike), delay, strike.random.randint(0, 3)))


def at_roll(strike: Strike) -> None:
    trap(strike, *strike.random.choice((("create", ".log"), ("create", ".index"), ("create", ".snapshot"))))


def at_checkpoint(strike: Strike) -> None:
    trap(strike, strike.random.choice(CHECKPOINT_STEPS), "checkpoint")


def at_file(strike: Strike) -> None:
    trap(strike, *strike.random.choice(FILES))


def trap(strike: Strike, operation: str, text: str, after: int | None = None) -> None:
    """Cut the power, or kill the process, within the first such operation on any broker."""
    traps: list[tuple[Host, Fault]] = []
    sprung: list[Host] = []

    def verdict(host: Host) -> str:
        if sprung or host.life is None:
            return GO_ON
        sprung.append(host)
        return strike.atlas.power_or_kill(host)

    def disarm() -> None:
        for host, trap in traps:
            if trap in host.disk.faults:
                host.disk.faults.remove(trap)

    after = strike.random.choice((0, 0, 1, 3)) if after is None else after
    for host in strike.world.hosts:
        trap = Fault(operation, text, after=after, times=1, verdict=partial(verdict, host))
        traps.append((host, trap))
        host.disk.faults.append(trap)
    strike.later(10 * SECOND, disarm)


KINDS: Mapping[str, Kind] = {
    "at_event": at_event,
    "cut_after_truncation": cut_after_truncation,
    "after_append": after_append,
    "after_commit": after_commit,
    "at_roll": at_roll,
    "at_checkpoint": at_checkpoint,
    "at_file": at_file,
}
