"""All kinds of faults, by name."""

from collections.abc import Mapping

from tidelog.sim.nemesis import clocks, disks, leaderships, moments, networks, processes, stores
from tidelog.sim.nemesis.strike import Kind

KINDS: Mapping[str, Kind] = {
    **processes.KINDS,
    **networks.KINDS,
    **disks.KINDS,
    **clocks.KINDS,
    **stores.KINDS,
    **moments.KINDS,
    **leaderships.KINDS,
}
