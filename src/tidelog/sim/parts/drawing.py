"""Which seeds have which part of the workload, and the dice that the part draws with."""

from collections.abc import Collection, Mapping
from random import Random

SHARES: Mapping[str, float] = {"transactions": 0.45, "compaction": 0.45, "moves": 0.2}
"""How many seeds have each."""


def dice_of(seed: int, part: str, without: Collection[str] = ()) -> Random | None:
    """The part's own dice; None where this seed has no such part, or it is left out."""
    dice = Random(f"{seed} {part}")
    return dice if dice.random() < SHARES[part] and part not in without else None
