"""Faults of the metadata store as one broker sees it: slow, responses lost, session or controllership lost."""

from collections.abc import Mapping
from functools import partial

from tidelog.controller.tree import CONTROLLER
from tidelog.node.node import Node
from tidelog.ports import Delete
from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.host import Host
from tidelog.sim.logged_tree import LoggedTree
from tidelog.sim.nemesis.strike import Kind, Strike

NO_SESSION = 0


def session(strike: Strike) -> None:
    """Expire the session; the broker learns of it later."""
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
    """Let half of the broker's store requests have an unknown outcome."""
    host = strike.random.choice(strike.world.hosts)
    host.trouble.store_lost = 0.5

    def recover() -> None:
        host.trouble.store_lost = None

    strike.later(strike.drawn(SECOND, 5 * SECOND), recover)


def controller_deleted(strike: Strike) -> None:
    """Remove the controller's node, as an operator does to have another one elected: what the old one still writes
    meets conflicts.
    """
    world = strike.world
    if CONTROLLER not in world.tree.nodes:
        return
    if isinstance(world.tree, LoggedTree):
        _delete_by_broker(strike)
    else:
        world.tree.change([Delete(CONTROLLER)], NO_SESSION)
        world.tree_changed()


def _delete_by_broker(strike: Strike) -> None:
    """With a metadata quorum every change comes from a broker."""
    host = strike.running()
    if host is not None and host.life is not None and isinstance(host.node, Node):
        host.node.store.submit([Delete(CONTROLLER)], lambda _: None)
        host.life.deliver("wake")


def store_silent(strike: Strike) -> None:
    """Cut a broker off from the store, often for longer than its session's term, while the session stays alive, as it
    does when the servers themselves stood still.

    Requests made meanwhile are applied when it is over, or have an unknown outcome.
    """
    host, world = strike.running(), strike.world
    if isinstance(world.tree, LoggedTree):
        return  # a node knows by itself whether it hears of a leader
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
            life.deliver("store_event", path)  # a broker that reaches the store again reads everything again

    strike.later(lasts, recover)


def _fall_silent(host: Host) -> None:
    """Notify the broker, unless everything was healed meanwhile."""
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
