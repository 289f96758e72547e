"""Who breaks the world: faults at drawn moments, of the kinds that a seed has, each with a weight of its own.

Start at `schedule.Nemesis`. A kind is a function that takes a `strike.Strike`, which has the fault's number, its own
dice, and the atlas (`atlas.Atlas`): the one place that says who may lose data now. `kinds.KINDS` is the table of all.
"""

from tidelog.sim.nemesis.kinds import DRAWN, FOLDERED, KINDS, NEEDS, PARTICULAR, SELDOM
from tidelog.sim.nemesis.schedule import Nemesis

__all__ = ["DRAWN", "FOLDERED", "KINDS", "NEEDS", "PARTICULAR", "SELDOM", "Nemesis"]
