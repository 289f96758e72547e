"""Faults of the metadata store as one broker sees it: slow, answers lost, the session or the controllership gone."""

from collections.abc import Mapping

from tidelog.controller.tree import CONTROLLER
from tidelog.ports import Delete
from tidelog.sim.faults import MILLI, SECOND
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


KINDS: Mapping[str, Kind] = {
    "session": session,
    "slow_store": slow_store,
    "unknown_outcomes": unknown_outcomes,
    "controller_deleted": controller_deleted,
}
