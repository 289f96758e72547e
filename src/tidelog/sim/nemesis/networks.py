"""Faults of the network: links that are blocked, slow or broken, and a storm."""

from collections.abc import Mapping

from tidelog.sim.faults import MILLI, SECOND
from tidelog.sim.nemesis.strike import Kind, Strike

HEALS = (200 * MILLI, 2 * SECOND, 12 * SECOND)
NARROW = (2_000, 20_000, 200_000)
"""Bytes per second."""
PATIENCE = (200 * MILLI, 2 * SECOND)
"""How long a broker waits for a response until its connection breaks."""

LATE = (SECOND, 5 * SECOND, 20 * SECOND)
STORMY = 0.9


def split(strike: Strike) -> None:
    one, other = strike.pair()
    strike.world.network.block(one.name, other.name)
    strike.world.network.block(other.name, one.name)
    _heal_later(strike)


def one_way(strike: Strike) -> None:
    one, other = strike.pair()
    strike.world.network.block(one.name, other.name)
    _heal_later(strike)


def isolate(strike: Strike) -> None:
    """Cut a broker off from all other brokers; clients and the store still reach it."""
    host = strike.random.choice(strike.world.hosts)
    strike.world.network.isolate(host.name, [other.name for other in strike.world.hosts])
    _heal_later(strike)


def cut_clients(strike: Strike) -> None:
    """Cut a broker off from its clients, in both directions or for responses only."""
    network = strike.world.network
    host = strike.random.choice(strike.world.hosts)
    brokers = {other.name for other in strike.world.hosts}
    links = [link for link in network.links if link.acceptor.party.name == host.name]
    clients = sorted({link.opener.party.name for link in links} - brokers)
    only_answers = strike.random.random() < 0.5
    for client in clients:
        network.block(host.name, client)
        if not only_answers:
            network.block(client, host.name)
    _heal_later(strike)


def _heal_later(strike: Strike) -> None:
    strike.world.count("partition")
    strike.later(strike.random.choice(HEALS), strike.world.network.heal)


def slow_link(strike: Strike) -> None:
    """Limit the bandwidth between two brokers, or from one to all."""
    network, width = strike.world.network, strike.random.choice(NARROW)
    one, other = strike.pair()
    targets = strike.world.hosts if strike.random.random() < 0.3 else [other]
    ways = [(one.name, target.name) for target in targets if target is not one]
    ways += [(target, source) for source, target in ways]
    for source, target in ways:
        network.narrow(source, target, width)

    def widen() -> None:
        for way in ways:
            network.slow.pop(way, None)

    strike.later(strike.random.choice(HEALS), widen)


def reset(strike: Strike) -> None:
    network = strike.world.network
    if network.links:
        network.reset(strike.random.choice(network.links))


def reset_all(strike: Strike) -> None:
    """Break every link of one broker, as a switch that restarts."""
    host = strike.random.choice(strike.world.hosts)
    for link in [*strike.world.network.links]:
        if host.name in (link.opener.party.name, link.acceptor.party.name):
            strike.world.network.reset(link)


def storm(strike: Strike) -> None:
    """For a while much traffic is late, split, or cut off in the middle of a frame."""
    weather = strike.world.network.weather
    if weather.split_chance == STORMY:
        return
    usual = (weather.tail_chance, weather.split_chance, weather.cut_chance)
    weather.tail_chance = strike.random.choice((0.1, 0.5))
    weather.split_chance = STORMY
    weather.cut_chance = strike.random.choice((0.0, 0.02, 0.2))

    def calms() -> None:
        if not strike.nemesis.over:
            weather.tail_chance, weather.split_chance, weather.cut_chance = usual

    strike.later(strike.random.randint(100 * MILLI, 3 * SECOND), calms)


def late(strike: Strike) -> None:
    """Deliver a broker's requests long after it abandoned the connection, behind what it sent again on the next one.

    Controllers send the pushes: half of the time the sender is the controller.
    """
    network, (one, other) = strike.world.network, strike.pair()
    controller = strike.nemesis.cluster.controller if strike.random.random() < 0.5 else None
    if controller is not None and controller is not one:
        one, other = controller, one
    network.block(one.name, other.name)
    wait = strike.random.choice(LATE)
    strike.later(strike.drawn(*PATIENCE), lambda: network.abandon(one.name, other.name, wait))


SELDOM: Mapping[str, Kind] = {"late": late}

KINDS: Mapping[str, Kind] = {
    "split": split,
    "one_way": one_way,
    "isolate": isolate,
    "cut_clients": cut_clients,
    "slow_link": slow_link,
    "reset": reset,
    "reset_all": reset_all,
    "storm": storm,
}
