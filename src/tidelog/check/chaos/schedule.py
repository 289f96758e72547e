"""Which faults happen when: rounds drawn from a seed, each with a new random subset of what the machine allows."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

KILL, PAUSE, RESTART, KILL_ALL = "kill", "pause", "restart", "kill-all"
FULL_DISK = "full-disk"
CUT, CUT_ONE_WAY, ISOLATE, UNPLUG = "cut", "cut-one-way", "isolate", "unplug"
LATE = "late"

KINDS = {
    KILL: "SIGKILL, then started again",
    PAUSE: "SIGSTOP, then SIGCONT",
    RESTART: "SIGTERM, then started again",
    KILL_ALL: "SIGKILL for every broker, then all started again",
    FULL_DISK: "no room left for its logs, then room again and a restart",
    CUT: "two brokers do not hear each other",
    CUT_ONE_WAY: "one broker does not reach another, which reaches it",
    ISOLATE: "a broker hears no other; clients reach it",
    UNPLUG: "a broker hears nobody",
    LATE: "requests of one broker reach another long after it closed their connections",
}
"""Fault → what it does."""

NETWORK_KINDS = frozenset({CUT, CUT_ONE_WAY, ISOLATE, UNPLUG})
_OF_TWO = frozenset({CUT, CUT_ONE_WAY, LATE})
_RARE = {KILL_ALL: 0.25}
"""Faults that leave nobody to talk to, and how likely they are beside the others."""

LASTS_S = (2.0, 10.0)
RESTS_S = (1.0, 5.0)


class PlannedFault(NamedTuple):
    """`brokers` are those it is done to; for the cuts and `late` the first is the one that does not reach the
    second."""

    kind: str
    brokers: tuple[int, ...]


class FaultRound(NamedTuple):
    faults: Sequence[PlannedFault]
    lasts_s: float
    rests_s: float


def rounds(seed: int, brokers: int, kinds: Sequence[str]) -> Iterator[FaultRound]:
    """Without end. No broker has two faults at the same time, and one disk at most is full."""
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
