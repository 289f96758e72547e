"""All kinds of faults, by name."""

from collections.abc import Collection, Mapping

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
}
"""Those that came last, each with dice of its own (`parts/drawing.py`)."""

COMPACTED: Collection[str] = compaction.DRAWN.keys()
"""Those among them that only seeds with compaction have."""

KINDS: Mapping[str, Kind] = {**GENERAL, **PARTICULAR, **SELDOM, **FOLDERED, **DRAWN}
