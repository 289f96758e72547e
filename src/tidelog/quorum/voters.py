"""Who votes: keys, majorities, and the voter sets that the log contains.

A voter is a node ID with the ID of its metadata directory: a voter whose disk was replaced is not that voter any more,
because it forgot what it voted for. Before kraft.version 1 nobody knows the directories, and only the ID counts.

A voter set is effective as soon as it is appended, on every node, and undone if its record is cut (KIP-853).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.model import NO_ID


class VoterKey(NamedTuple):
    """A replica of the metadata log. `directory` is NO_ID if it is not known."""

    id: int
    directory: bytes = NO_ID


NOBODY = VoterKey(-1)


class Voters:
    """One set of voters, in the order of their IDs. Without `directories` (kraft.version 0) only IDs are compared."""

    def __init__(self, keys: Iterable[VoterKey] = (), *, directories: bool = True) -> None:
        self.keys = tuple(sorted(keys))
        self.directories = directories
        self.ids = tuple(key.id for key in self.keys)
        self._by_id = {key.id: key for key in self.keys}
        assert len(self._by_id) == len(self.keys), self.keys

    def __repr__(self) -> str:
        return f"Voters({', '.join(map(str, self.ids))})"

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[VoterKey]:
        return iter(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and (self.keys, self.directories) == (other.keys, other.directories)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, key: VoterKey) -> bool:
        known = self._by_id.get(key.id)
        return known is not None and (not self.directories or known.directory == key.directory)

    def key_of(self, voter_id: int) -> VoterKey:
        """The voter's key; NOBODY for other IDs."""
        return self._by_id.get(voter_id, NOBODY)

    @property
    def majority(self) -> int:
        return len(self.keys) // 2 + 1

    def reached_by_majority(self, values: Mapping[int, int], missing: int) -> int:
        """The highest value that a majority of the voters has reached; `values` are by ID."""
        ordered = sorted((values.get(voter, missing) for voter in self.ids), reverse=True)
        return ordered[self.majority - 1] if ordered else missing

    def rank(self, voter_id: int, behind: int | None = None) -> int:
        """The voter's place in the order of IDs, or its place behind another one, which need not be a voter."""
        if behind is None:
            return self.ids.index(voter_id)
        following = [each for each in self.ids if each > behind] + [each for each in self.ids if each <= behind]
        return following.index(voter_id)


class VoterHistory:
    """The voter sets of one log: where the log begins, and each one that was appended since, by its offset."""

    def __init__(self, first: Voters) -> None:
        self._first = first
        self._appended: list[tuple[int, Voters]] = []

    def __repr__(self) -> str:
        return f"VoterHistory({self.latest}, {len(self._appended)} appended)"

    @property
    def latest(self) -> Voters:
        return self._appended[-1][1] if self._appended else self._first

    @property
    def latest_offset(self) -> int:
        """Where the latest set is in the log; -1 if it is older than the log."""
        return self._appended[-1][0] if self._appended else -1

    def append(self, offset: int, voters: Voters) -> None:
        assert offset > self.latest_offset, (offset, self)
        self._appended.append((offset, voters))

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        while self._appended and self._appended[-1][0] >= end_offset:
            self._appended.pop()
