"""Faults of the metadata store as one broker sees it: slow, answers lost, the session or the controllership gone."""

from collections.abc import Mapping
from functools import partial

from tidelog.controller.tree import CONTROLLER
from tidelog.ports import Delete
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.strike import Kind, Strike

NO_SESSION = 0


def session(strike: Strike) -> None:
    """The session expires, and the broker hears of it later."""
    host = strike.running()
    if host is not None:
        strike.world.lose_session(host)


def slow_store(strike: Strike) -> None:
    host = strike.random.choice(strike.world.hosts)
    host.trouble.store_delay = (1 * MILLI, strike.random.choice((100, 1_000)) * MILLI)

    def recover() -> None:
        host.trouble.store_delay = None

    strike.later(strike.drawn(SECOND, 5 * SECOND), recover)


def unknown_outcomes(strike: Strike) -> None:
    """Half of what it asks of the store has an outcome that it cannot know."""
    host = strike.random.choice(strike.world.hosts)
    host.trouble.store_lost = 0.5

    def recover() -> None:
        host.trouble.store_lost = None

    strike.later(strike.drawn(SECOND, 5 * SECOND), recover)


def controller_deleted(strike: Strike) -> None:
    """An operator removes the controller's node to have another elected: what the old one still writes meets
    conflicts."""
    world = strike.world
    if CONTROLLER in world.tree.nodes:
        world.tree.change([Delete(CONTROLLER)], NO_SESSION)
        world.tree_changed()


def store_silent(strike: Strike) -> None:
    """A broker hears nothing of the store, often for longer than its session's term; the session goes on all the same,
    as it does where the servers themselves stood still. What was asked meanwhile happens when it is over, or nobody
    knows."""
    host, world = strike.running(), strike.world
    controller = strike.nemesis.cluster.controller if strike.random.random() < 0.5 else None
    if controller is not None and controller.running:
        host = controller
    if host is None or host.life is None or host.silence:
        return
    life, term = host.life, world.faults.session_term
    lasts = strike.random.randint(term // 2, 3 * term)
    host.trouble.silent_until = world.micros + lasts
    host.trouble.store_lost = strike.random.choice((None, 1.0))
    if lasts > term:
        life.after(term, partial(_fall_silent, host))

    def recover() -> None:
        host.trouble.store_lost = None
        for path in life.session.watched if life.alive and life.session is not None else ():
            life.deliver("store_event", path)  # whoever reaches the store again looks at everything anew

    strike.later(lasts, recover)


def _fall_silent(host: Host) -> None:
    """Unless all was healed meanwhile."""
    if host.silence and host.life is not None:
        host.world.count("store silent")
        host.life.deliver("store_silent")


DRAWN: Mapping[str, Kind] = {"store_silent": store_silent}

KINDS: Mapping[str, Kind] = {
    "session": session,
    "slow_store": slow_store,
    "unknown_outcomes": unknown_outcomes,
    "controller_deleted": controller_deleted,
}
