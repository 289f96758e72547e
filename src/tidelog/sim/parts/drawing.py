"""Which seeds have which part of the workload, or which of the later kinds of faults, and the dice it draws with."""

from collections.abc import Collection, Mapping
from random import Random

SHARES: Mapping[str, float] = {
    "transactions": 0.45,
    "compaction": 0.45,
    "moves": 0.2,
    "forger": 0.05,
    "folders": 0.15,
    "relocations": 0.6,
    "racks": 0.1,
    "factors": 0.15,
    "busy": 0.15,
    "store_silent": 0.15,
    "clock_days": 0.12,
    "left_alone": 0.3,
    "coordinator_rot": 0.15,
    "end_told": 0.15,
    "stale_coordinator": 0.15,
    "copiers": 0.12,
    "old-producers": 0.2,
    "early-ends": 0.4,
    "first-lost": 0.15,
    "consumer-protocol": 0.25,
    "static-members": 0.25,
    "old-consumers": 0.4,
}
"""How many seeds have each; of those with several log folders `relocations`, of those with compaction `left_alone`, of
those with an operator `old-consumers`. `consumer-protocol` and `static-members` say what the members of a group are,
which half of the seeds have; the three before, how producers of transactions behave."""


def dice_of(seed: int, part: str, without: Collection[str] = ()) -> Random | None:
    """The part's own dice; None where this seed has no such part, or it is left out."""
    dice = Random(f"{seed} {part}")
    return dice if dice.random() < SHARES[part] and part not in without else None
