"""What is to be run: a seed, and what is left out or set otherwise than the seed draws it."""

from dataclasses import dataclass
from shlex import quote

PRODUCTION = "kip_320"
SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """None is as the seed draws it. `seconds` are those with faults; `only` are the numbers of the faults that may
    strike; `without` names what is left out (`workload.PARTS`, `workload.LATER`); `moves`: partitions move,
    whether the seed has it or not."""

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
        """What a person types to repeat it."""
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
