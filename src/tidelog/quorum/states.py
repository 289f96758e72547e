"""The states of a replica of the metadata log: one class each, with what it has only there, and which may follow which.

Moments are monotonic milliseconds. A state never has a change of epoch, vote or leader of its own: those are in
`ElectionState`, which is durable before anything is sent (`quorum.py`).
"""

from dataclasses import dataclass, field

from tidelog.model import NO_ID
from tidelog.quorum.voters import ReplicaKey, VoterSet

LONG_AGO = -(2**62)
MOST_REPLICAS = 1_000
"""How many replicas a leader remembers."""


@dataclass(slots=True)
class Unattached:
    """No leader is known. A voter waits for one, or for its election timer; an observer looks for one."""

    deadline: int


@dataclass(slots=True)
class Follower:
    """Fetches from the leader. `deadline` is that of the fetch timer."""

    leader: int
    deadline: int
    has_fetched: bool = False
    """In this epoch; then others get no pre-vote, because the leader is alive."""
    leader_left: bool = False
    """The leader resigned, or its process is dead."""
    left_after: int = 0
    """The last request before that was known: answers to that one and earlier ones say nothing of it."""
    asked_at: int = LONG_AGO
    """When it fetched last."""


@dataclass(slots=True)
class Tally:
    """The votes of one election, by voter ID. Only those of `voters` count: the candidate may not be one of them.
    `doubtful` are voters that may be dead: their votes count if they come, but are not waited for."""

    voters: VoterSet
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)

    @property
    def is_won(self) -> bool:
        return len(self.granted.intersection(self.voters.ids)) >= self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether a voter rejected it, and without that vote and those of the doubtful there is no majority. That
        nobody answers is no defeat: the votes may be on their way."""
        against = self.rejected | (self.doubtful - self.granted)
        hoped_for = len([voter for voter in self.voters.ids if voter not in against])
        return bool(self.rejected) and hoped_for < self.voters.majority

    @property
    def missing(self) -> list[int]:
        return [voter for voter in self.voters.ids if voter not in self.granted and voter not in self.rejected]


@dataclass(slots=True)
class Prospective:
    """Asks whether it would win, without a new epoch (KIP-996)."""

    tally: Tally
    deadline: int
    leader_left: bool = False
    """As the follower knew that it was before: the epoch's leader, if any, is not coming back."""


@dataclass(slots=True)
class Candidate:
    """Voted for itself in a new epoch, and requests the votes of the others."""

    tally: Tally
    deadline: int
    is_lost: bool = False
    """No majority can be expected any more; `deadline` is that of the next attempt."""


@dataclass(slots=True)
class Progress:
    """How far a replica is that fetches: its synced end, and when it fetched last, and last from the leader's end."""

    end: int = 0
    fetched_at: int = LONG_AGO
    caught_up_at: int = LONG_AGO
    directory: bytes = NO_ID
    """With which it fetched last. At kraft.version 0 its key has none."""
    moved_at: int = LONG_AGO
    """When it fetched last from the leader's end, or from further than before. One whose disk hangs fetches, too."""

    def fetched(self, offset: int, leader_end: int, now: int) -> None:
        if offset != self.end or offset == leader_end:
            self.moved_at = now
        if offset == leader_end:
            self.caught_up_at = now
        self.end = offset


@dataclass(slots=True)
class Leader:
    """`epoch_start` is the offset of its LeaderChange. `replicas` are all that fetch, voters and observers: a replica
    with another directory is another one, so what a replaced disk had does not count for the new one."""

    epoch_start: int
    since: int
    replicas: dict[ReplicaKey, Progress] = field(default_factory=dict)
    announced_at: int = LONG_AGO
    """When BeginQuorumEpoch was last sent to the voters that do not fetch."""

    def ends_of(self, voters: VoterSet) -> dict[int, int]:
        """The synced ends of the voters that fetch, by ID."""
        return {key.id: self.replicas[key].end for key in voters if key in self.replicas}

    def fetched_at_of(self, voters: VoterSet) -> dict[int, int]:
        """When the voters fetched last, by ID; those that never did so are missing."""
        return {key.id: self.replicas[key].fetched_at for key in voters if key in self.replicas}

    def rename(self, voters: VoterSet) -> None:
        """What is known of the voters by their IDs belongs to these keys now."""
        for key in voters:
            if (progress := self.replicas.pop(ReplicaKey(key.id), None)) is not None:
                self.replicas[key] = progress

    def forget_observers(self, voters: VoterSet) -> None:
        """Of too many replicas keep the observers that fetched last: anybody may fetch, with any ID."""
        if len(self.replicas) <= MOST_REPLICAS:
            return
        observers = [key for key in self.replicas if key not in voters]
        observers.sort(key=lambda key: self.replicas[key].fetched_at)
        for key in observers[: len(self.replicas) - MOST_REPLICAS // 2]:
            del self.replicas[key]

    def moved_at(self, replica: ReplicaKey) -> int:
        """When the replica last showed that it follows: see `Progress.moved_at`."""
        known = self.replicas.get(replica)
        return LONG_AGO if known is None else known.moved_at


@dataclass(slots=True)
class Resigned:
    """Led this epoch, and never will again. It tells the voters, those `unacknowledged`, to elect another one."""

    deadline: int
    candidates: tuple[int, ...]
    """The other voters, the longest log first."""
    unacknowledged: set[int]


State = Unattached | Follower | Prospective | Candidate | Leader | Resigned

TRANSITIONS: dict[type[State], frozenset[type[State]]] = {
    Unattached: frozenset({Unattached, Follower, Prospective}),
    Follower: frozenset({Unattached, Follower, Prospective}),
    Prospective: frozenset({Unattached, Follower, Candidate}),
    Candidate: frozenset({Unattached, Follower, Prospective, Leader}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Resigned: frozenset({Unattached, Follower}),
}
"""Which states may follow. A leader follows only in a later epoch."""
