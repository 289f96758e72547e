"""All kinds of faults, by name."""

from collections.abc import Mapping, Sequence

from tidelog.sim.nemesis import (
    clocks,
    compaction,
    coordinators,
    disks,
    folders,
    leaderships,
    log_ends,
    moments,
    networks,
    processes,
    stale_coordinators,
    stores,
)
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

FOLDERED: Mapping[str, Kind] = folders.KINDS
"""Those of seeds with several log folders."""

DRAWN: Mapping[str, Kind] = {
    **processes.DRAWN,
    **stores.DRAWN,
    **clocks.DRAWN,
    **compaction.DRAWN,
    **coordinators.DRAWN,
    **log_ends.DRAWN,
    **stale_coordinators.DRAWN,
}
"""Those that came last, each with dice of its own (`parts/drawing.py`)."""

NEEDS: Mapping[str, Sequence[str]] = {**dict.fromkeys(compaction.DRAWN, ("compaction",)), **stale_coordinators.NEEDS}
"""The parts of the workload without which a seed has not those among them."""

KINDS: Mapping[str, Kind] = {**GENERAL, **PARTICULAR, **SELDOM, **FOLDERED, **DRAWN}
