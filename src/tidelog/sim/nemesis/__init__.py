"""Fault injection: faults at drawn times, of the kinds that a seed has, each kind with its own weight.

Start at `schedule.Nemesis`; `schedule.KINDS` is the table of all kinds. A kind is a function that takes a
`strike.Strike`, which has the fault's number, its own random generator, and the atlas (`strike.Atlas`), the one place
that says which brokers may lose data now. A `strike.Trigger` waits for a situation and strikes then.
"""

from tidelog.sim.nemesis.schedule import DRAWN, FOLDERED, KINDS, NEEDS, PARTICULAR, SELDOM, Nemesis

__all__ = ["DRAWN", "FOLDERED", "KINDS", "NEEDS", "PARTICULAR", "SELDOM", "Nemesis"]
