"""The follower's role: whom it follows, and whether it may append yet."""

from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """Fields of one followership.

    `leader` is NO_LEADER while there is none. `asking`: the log's end must first be compared by OffsetsForLeaderEpoch
    (older generations only; KIP-320 compares in the fetch itself).
    """

    leader: int
    asking: bool = False
