"""The follower's role: its leader, and whether it may append yet."""

from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """`leader` is NO_LEADER while there is none. `asking`: OffsetsForLeaderEpoch must first compare the ends of the
    logs (older generations only; KIP-320 compares in the fetch itself)."""

    leader: int
    asking: bool = False
