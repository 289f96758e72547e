"""All kinds of faults, by name."""

from collections.abc import Mapping

from tidelog.sim.nemesis import clocks, compaction, disks, leaderships, moments, networks, processes, stores
from tidelog.sim.nemesis.strike import Kind

GENERAL: Mapping[str, Kind] = {
    **processes.KINDS,
    **networks.KINDS,
    **disks.KINDS,
    **clocks.KINDS,
    **stores.KINDS,
    **moments.KINDS,
    **leaderships.KINDS,
}
"""Those that every seed may draw."""

PARTICULAR: Mapping[str, Kind] = compaction.KINDS
"""Those of seeds with compaction."""

SELDOM: Mapping[str, Kind] = networks.SELDOM
"""Those that came later: a seed without them is the same run as before."""

KINDS: Mapping[str, Kind] = {**GENERAL, **PARTICULAR, **SELDOM}
