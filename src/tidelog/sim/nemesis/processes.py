"""Faults of processes and machines: killed, without power, paused, stopped, with a new disk."""

from collections.abc import Mapping
from functools import partial

from tidelog.sim.faults import SECOND
from tidelog.sim.host import Busy, Host
from tidelog.sim.nemesis.strike import Kind, Strike
from tidelog.sim.world import World


def kill(strike: Strike) -> None:
    host = strike.running()
    if host is not None:
        strike.world.kill(host)


def kill_all(strike: Strike) -> None:
    """Kill every process at about the same time; page caches survive."""
    for host in strike.world.hosts:
        strike.later(strike.random.randint(0, 2_000), partial(_kill, strike.world, host))


def _kill(world: World, host: Host) -> None:
    if host.running:
        world.kill(host)


def power_loss(strike: Strike) -> None:
    host = strike.losable()
    if host is not None:
        strike.world.lose_power(host)


def power_loss_of_two(strike: Strike) -> None:
    """Cut the power of two brokers one after the other, as far as the atlas allows it."""
    for host in strike.pair():
        if host.running and strike.atlas.may_lose(host):
            strike.world.lose_power(host)


def cut_in_disk(strike: Strike) -> None:
    """Cut the power or kill the process within one of the next disk operations."""
    host = strike.running()
    if host is not None:
        host.disk.operations_left = strike.random.randint(0, 60)
        host.disk.verdict = partial(strike.atlas.power_or_kill, host)


def kill_in_disk(strike: Strike) -> None:
    host = strike.running()
    if host is not None:
        host.disk.operations_left = strike.random.randint(0, 60)
        host.disk.verdict = lambda: "kill"


def in_recovery(strike: Strike) -> None:
    """Kill the process, and cut its next start short within the disk operations of its recovery."""
    host = strike.running()
    if host is None:
        return
    count = strike.random.choice((10, 50, 200))
    operations = strike.random.randint(0, count)

    def cut() -> None:
        host.disk.operations_left = operations
        host.disk.verdict = partial(strike.atlas.power_or_kill, host)

    strike.nemesis.before_start[host.broker_id] = cut
    strike.world.kill(host)


def in_stop(strike: Strike) -> None:
    """Stop the process, and cut the stop short within the disk operations of closing."""
    host = strike.running()
    if host is None:
        return
    host.disk.operations_left = strike.random.randint(0, 30)
    host.disk.verdict = partial(strike.atlas.power_or_kill, host)
    stop_or_kill(strike, host)


def stop(strike: Strike) -> None:
    """Restart cleanly."""
    host = strike.running()
    if host is not None:
        stop_or_kill(strike, host)


def stop_or_kill(strike: Strike, host: Host) -> None:
    """Stop the process; kill it if that takes too long."""
    strike.later(5 * SECOND, partial(_kill_if_same, strike.world, host, host.lives))
    strike.world.stop(host)


def _kill_if_same(world: World, host: Host, life: int) -> None:
    if host.life is not None and host.lives == life:
        world.kill(host)


def pause(strike: Strike) -> None:
    host = strike.running()
    if host is not None:
        strike.world.pause(host, strike.random.randint(10_000, 3 * SECOND))


def long_pause(strike: Strike) -> None:
    """Pause long enough to wake as a zombie."""
    host = strike.running()
    if host is not None:
        strike.world.pause(host, strike.random.randint(1 * SECOND, strike.random.choice((10, 30, 60)) * SECOND))


def new_disk(strike: Strike) -> None:
    """Restart the machine with an empty disk."""
    host = strike.losable()
    if host is not None:
        strike.world.lose_power(host)
        strike.world.replace_disk(host)


def busy(strike: Strike) -> None:
    """Let one input take seconds: timers are late and connections wait, while the session stays alive."""
    host = strike.running()
    if host is not None:
        skips = strike.random.randint(0, strike.random.choice((0, 20, 200)))
        host.trouble.busy = Busy(strike.drawn(2 * SECOND, 4 * SECOND, 10 * SECOND), skips)


DRAWN: Mapping[str, Kind] = {"busy": busy}

KINDS: Mapping[str, Kind] = {
    "kill": kill,
    "kill_all": kill_all,
    "power_loss": power_loss,
    "power_loss_of_two": power_loss_of_two,
    "cut_in_disk": cut_in_disk,
    "kill_in_disk": kill_in_disk,
    "in_recovery": in_recovery,
    "in_stop": in_stop,
    "stop": stop,
    "pause": pause,
    "long_pause": long_pause,
    "new_disk": new_disk,
}
