"""Faults of a broker's log folders: at a start one of them is empty, away for a while, or found under another path.

The broker ends by wish, or is killed, or loses its power; what it finds is decided at the moment of its start. What
was in a folder counts as lost where it is empty, and also where it is away: its replicas may be made anew meanwhile.
"""

from collections.abc import Callable, Mapping
from functools import partial

from tidelog.sim.faults import SECOND
from tidelog.sim.host import Host
from tidelog.sim.nemesis.processes import end_in_order
from tidelog.sim.nemesis.strike import Kind, Strike

AWAY = (2 * SECOND, 12 * SECOND)


def folder_replaced(strike: Strike) -> None:
    """One of them is empty, and has another id."""
    _at_next_start(strike, _replace)


def folder_away(strike: Strike) -> None:
    """The broker is started without one of them, and some time later with all."""
    _at_next_start(strike, _leave_out)


def folder_renamed(strike: Strike) -> None:
    """One of them is found under another path, or two under each other's: nothing is lost by that."""
    _at_next_start(strike, _rename)


def _at_next_start(strike: Strike, happens: Callable[[Strike, Host], None]) -> None:
    host = strike.running()
    if host is None or len(host.disk.mounted) < 2:
        return
    waiting = strike.nemesis.before_start.get(host.broker_id)

    def starts() -> None:
        if waiting is not None:
            waiting()
        if not strike.nemesis.over and not host.disk.away:
            happens(strike, host)

    strike.nemesis.before_start[host.broker_id] = starts
    ends = [end_in_order, end_in_order, _kill]
    if strike.atlas.may_lose(host):
        ends.append(_lose_power)
    strike.random.choice(ends)(strike, host)


def _kill(strike: Strike, host: Host) -> None:
    strike.world.kill(host)


def _lose_power(strike: Strike, host: Host) -> None:
    strike.world.lose_power(host)


def _replace(strike: Strike, host: Host) -> None:
    folder = strike.random.choice(host.disk.mounted)
    if _may_miss(strike, host, folder):
        _tell(strike, host, "folder replaced", folder)
        host.disk.erase(folder)


def _leave_out(strike: Strike, host: Host) -> None:
    folder = strike.random.choice(host.disk.mounted)
    if _may_miss(strike, host, folder):
        _tell(strike, host, "folder away", folder)
        host.disk.away.add(folder)
        strike.later(strike.drawn(*AWAY), partial(_bring_back, strike, host))


def _bring_back(strike: Strike, host: Host) -> None:
    """Whoever is healed has it back already."""
    if host.disk.away:
        if host.life is not None:
            strike.world.kill(host)
        host.disk.mount()


def _rename(strike: Strike, host: Host) -> None:
    one, other = strike.random.sample(host.disk.mounted, 2)
    swapped = strike.random.random() < 0.5
    places = {one: other, other: one} if swapped else {one: f"/data/at-{strike.number}"}
    _tell(strike, host, "folder renamed", ", ".join(f"{old} is {new}" for old, new in places.items()))
    host.disk.remount(places)


def _may_miss(strike: Strike, host: Host, folder: str) -> bool:
    """Whether what the folder holds may go; then the ghosts know that it does."""
    names = host.disk.held_in(folder)
    if not strike.atlas.may_lose(host, names):
        return False
    strike.atlas.ghosts.lost_power(host.broker_id, names)
    return True


def _tell(strike: Strike, host: Host, kind: str, folder: str) -> None:
    strike.world.note(host.name, kind.upper(), folder)
    strike.world.count(kind)


KINDS: Mapping[str, Kind] = {
    "folder_replaced": folder_replaced,
    "folder_away": folder_away,
    "folder_renamed": folder_renamed,
}
