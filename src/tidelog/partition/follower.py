"""The follower's role: its leader, and whether it may append yet."""

from dataclasses import dataclass


@dataclass(slots=True)
class Follower:
    """One leader epoch in which this replica follows."""

    leader: int
    """NO_LEADER while there is none."""
    needs_epoch_end: bool = False
    """OffsetsForLeaderEpoch must compare the ends of the logs before the first fetch. Only in older generations:
    KIP-320 compares them in the fetch itself."""
