"""The schedule of faults: rounds drawn from a seed, each with a new random subset of the faults that the machine
allows."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

KILL, PAUSE, RESTART, KILL_ALL = "kill", "pause", "restart", "kill-all"
FULL_DISK = "full-disk"
CUT, CUT_ONE_WAY, ISOLATE, UNPLUG = "cut", "cut-one-way", "isolate", "unplug"
LATE = "late"

KINDS = {
    KILL: "SIGKILL, then restarted",
    PAUSE: "SIGSTOP, then SIGCONT",
    RESTART: "SIGTERM, then restarted",
    KILL_ALL: "SIGKILL for every broker, then all restarted",
    FULL_DISK: "no space left for its logs, then space again and a restart",
    CUT: "two brokers cannot reach each other",
    CUT_ONE_WAY: "one broker cannot reach another, which still reaches it",
    ISOLATE: "a broker cannot reach other brokers; clients reach it",
    UNPLUG: "a broker cannot reach anybody",
    LATE: "requests of one broker reach another long after it closed their connections",
}
"""Fault → its effect."""

NETWORK_KINDS = frozenset({CUT, CUT_ONE_WAY, ISOLATE, UNPLUG})
_OF_TWO = frozenset({CUT, CUT_ONE_WAY, LATE})
_RARE = {KILL_ALL: 0.25}
"""Faults that leave no broker to talk to, and their likelihood relative to the others."""

LASTS_S = (2.0, 10.0)
RESTS_S = (1.0, 5.0)


class PlannedFault(NamedTuple):
    """`brokers` are the affected brokers; for cuts and `late` the first one does not reach the second."""

    kind: str
    brokers: tuple[int, ...]


class FaultRound(NamedTuple):
    faults: Sequence[PlannedFault]
    lasts_s: float
    rests_s: float


def rounds(seed: int, brokers: int, kinds: Sequence[str]) -> Iterator[FaultRound]:
    """Endless rounds. No broker has two faults at a time, and at most one disk is full."""
    chance = random.Random(seed)  # noqa: S311 (chance that can be repeated)
    usable = [kind for kind in KINDS if kind in kinds and (kind not in _OF_TWO | {ISOLATE} or brokers > 1)]
    while usable:
        free = list(range(brokers))
        chance.shuffle(free)
        faults: list[PlannedFault] = []
        for kind in _subset(chance, usable):
            count = brokers if kind == KILL_ALL else 2 if kind in _OF_TWO else 1
            if count <= len(free):
                faults.append(PlannedFault(kind, tuple(free[:count])))
                free = free[count:]
        if faults:
            yield FaultRound(faults, chance.uniform(*LASTS_S), chance.uniform(*RESTS_S))


def _subset(chance: random.Random, kinds: Sequence[str]) -> list[str]:
    chosen = [kind for kind in kinds if chance.random() < _RARE.get(kind, 1.0) * 1.5 / len(kinds)]
    chance.shuffle(chosen)
    return chosen
