"""Brokers with two or three log folders; which faults come to them is said in `nemesis/folders.py`."""

from random import Random

FOLDERS = ("/data/one", "/data/two", "/data/three")

RATES = ("9223372036854775807", "20000", "5000")
"""How much of a replica is copied to another folder in a second, where one moves (`relocations.py`)."""


def draw_properties(dice: Random) -> dict[str, str]:
    return {
        "log.dirs": ",".join(FOLDERS[: dice.choice((2, 2, 3))]),
        "replica.alter.log.dirs.io.max.bytes.per.second": dice.choice(RATES),
    }
