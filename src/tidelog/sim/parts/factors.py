"""Topics that have one, two or five replicas instead of three, the clients' own and the internal ones.

With one replica nothing may be lost by kills, and no power may go where it is; what `min.insync.replicas` asks for
beyond the number of replicas counts for no more than these.
"""

from random import Random

FACTORS = (1, 2, 2, 5)
INTERNAL = (1, 2, 3, 3, 5)
MOST = 5


def draw(dice: Random, brokers: int | None) -> tuple[int, int]:
    """Of the clients' topics and of the internal ones; `brokers` where somebody wants so many."""
    most = brokers or MOST
    return min(dice.choice(FACTORS), most), min(dice.choice(INTERNAL), most)


def properties(internal: int) -> dict[str, str]:
    names = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
    return dict.fromkeys(names, str(internal))
