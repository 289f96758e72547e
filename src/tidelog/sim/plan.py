"""What a run consists of: the seed, what is left out or set otherwise, and which optional parts the seed draws."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from random import Random
from shlex import quote

PRODUCTION = "kip_320"
SECONDS = 30.0
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
    "elr": 0.5,
    "last_replica": 0.7,
    "changing-least": 0.3,
    "eligible_replicas": 0.7,
    "quorum": 0.5,
    "slow-folders": 0.5,
    "static-voters": 0.3,
    "observers-disks": 0.5,
}
"""The share of seeds that have each part or kind of fault; `relocations` of those with several log directories,
`left_alone` of those with compaction, `old-consumers` of those with an operator, `last_replica`, `changing-least` and
`eligible_replicas` of those with eligible leader replicas (`elr`). With `quorum` the brokers keep the
metadata; `static-voters` and `observers-disks` concern those.

`consumer-protocol` and `static-members` concern the members of a group, which half of the seeds have; the three before,
producers in transactions.
"""

NEW_SEEDS = 20_000_000
FROM: Mapping[str, int] = {
    "elr": NEW_SEEDS,
    "eligible_replicas": 21_000_000,
    "quorum": 22_000_000,
    "slow-folders": 24_000_000,
    "static-voters": 25_000_000,
    "observers-disks": 25_000_000,
}
"""The first seed that may have a part, so that the seeds before are the same runs as ever."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. None means: as the seed draws it.

    `seconds` are those with faults; `only` are the numbers of the faults that may strike; `without` names parts that
    are left out (`workload.PARTS`, `workload.LATER`); `moves`: partitions move, whether the seed has it or not.
    """

    seed: int
    generation: str = PRODUCTION
    seconds: float = SECONDS
    kinds: tuple[str, ...] | None = None
    only: tuple[int, ...] | None = None
    brokers: int | None = None
    partitions: int | None = None
    without: tuple[str, ...] = ()
    moves: bool = False

    def command(self) -> str:
        """Return the command that repeats the run."""
        words = ["tidelog", "simulate", "--seed", str(self.seed)]
        if self.generation != PRODUCTION:
            words += ["--truncation", self.generation]
        if self.seconds != SECONDS:
            words += ["--seconds", f"{self.seconds:g}"]
        for option, values in (("--kinds", self.kinds), ("--only", self.only), ("--without", self.without or None)):
            if values is not None:
                words += [option, ",".join(str(value) for value in values)]
        for option, number in (("--brokers", self.brokers), ("--partitions", self.partitions)):
            if number is not None:
                words += [option, str(number)]
        if self.moves:
            words.append("--moves")
        return " ".join(quote(word) for word in words)


def dice_of(seed: int, part: str, without: Collection[str] = ()) -> Random | None:
    """Return the part's own random generator, or None if the seed does not have the part or it is left out."""
    if seed < FROM.get(part, 0):
        return None
    dice = Random(f"{seed} {part}")
    return dice if dice.random() < SHARES[part] and part not in without else None
