"""Who votes: keys, majorities, and the voter sets that the log contains.

A voter is a node ID with the ID of its metadata directory: a voter whose disk was replaced is not that voter any more,
because it forgot what it voted for. Before kraft.version 1 nobody knows the directories, and only the ID counts.

A voter set is effective as soon as it is appended, on every node, and undone if its record is cut (KIP-853).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from tidelog.model import NO_ID
from tidelog.wire.messages.cluster.metadata_log import KRaftVersionFeature, Voter, VoterEndpoint


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. `directory` is NO_ID if it is not known."""

    id: int
    directory: bytes = NO_ID


NOBODY = ReplicaKey(-1)


def voter_record(key: ReplicaKey, endpoints: Sequence[VoterEndpoint] = ()) -> Voter:
    return Voter(
        voter_id=key.id,
        voter_directory_id=key.directory,
        endpoints=list(endpoints),
        k_raft_version_feature=KRaftVersionFeature(max_supported_version=1),
    )


class VoterSet:
    """One set of voters, in the order of their IDs. Without `directories` (kraft.version 0) only IDs are compared.
    `records` are the voters as the log has them, with their endpoints, which are empty where nobody knows them."""

    def __init__(
        self, keys: Iterable[ReplicaKey] = (), *, directories: bool = True, records: Iterable[Voter] = ()
    ) -> None:
        self.keys = tuple(sorted(keys))
        self.directories = directories
        known = {record.voter_id: record for record in records}
        self.records = tuple([known.get(key.id) or voter_record(key) for key in self.keys])
        self.ids = tuple(key.id for key in self.keys)
        self._by_id = {key.id: key for key in self.keys}
        assert len(self._by_id) == len(self.keys), self.keys

    @classmethod
    def of(cls, records: Iterable[Voter]) -> "VoterSet":
        """The set that a VotersRecord has."""
        found = list(records)
        return cls([ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in found], records=found)

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(map(str, self.ids))})"

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[ReplicaKey]:
        return iter(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and (self.keys, self.directories) == (other.keys, other.directories)

    __hash__ = None  # type: ignore[assignment]

    def __contains__(self, key: ReplicaKey) -> bool:
        known = self._by_id.get(key.id)
        return known is not None and (not self.directories or known.directory == key.directory)

    def key_of(self, voter_id: int) -> ReplicaKey:
        """The voter's key; NOBODY for other IDs."""
        return self._by_id.get(voter_id, NOBODY)

    def record_of(self, voter_id: int) -> Voter | None:
        return next((record for record in self.records if record.voter_id == voter_id), None)

    def changed(self, record: Voter) -> "VoterSet":
        """The set with this voter, who may be in it already."""
        return VoterSet.of([*self.without(record.voter_id).records, record])

    def without(self, voter_id: int) -> "VoterSet":
        return VoterSet.of([record for record in self.records if record.voter_id != voter_id])

    @property
    def majority(self) -> int:
        return len(self.keys) // 2 + 1

    def reached_by_majority(self, values: Mapping[int, int], missing: int) -> int:
        """The highest value that a majority of the voters has reached; `values` are by ID."""
        ordered = sorted((values.get(voter, missing) for voter in self.ids), reverse=True)
        return ordered[self.majority - 1] if ordered else missing

    def rank(self, voter_id: int, behind: int | None = None) -> int:
        """The voter's place in the order of IDs, or its place behind another one. Neither need be a voter: the place of
        another node is behind all of them."""
        order = self.ids
        if behind is not None:
            order = (*(each for each in order if each > behind), *(each for each in order if each <= behind))
        return order.index(voter_id) if voter_id in order else len(order)


Value = TypeVar("Value")


class History(Generic[Value]):
    """What one log contains of something that holds from where it is appended until it is appended again or cut:
    `first` holds where the log begins."""

    def __init__(self, first: Value) -> None:
        self._first = first
        self._offsets: list[int] = []
        self._values: list[Value] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.latest}, {len(self._values)} appended)"

    @property
    def latest(self) -> Value:
        return self._values[-1] if self._values else self._first

    @property
    def latest_offset(self) -> int:
        """Where the latest one is in the log; -1 if it is older than the log."""
        return self._offsets[-1] if self._offsets else -1

    def at(self, end_offset: int) -> Value:
        """What the records before this offset say."""
        index = bisect_left(self._offsets, end_offset)
        return self._values[index - 1] if index else self._first

    def append(self, offset: int, value: Value) -> None:
        assert offset > self.latest_offset, (offset, self)
        self._offsets.append(offset)
        self._values.append(value)

    def cut(self, end_offset: int) -> None:
        """The log ends at `end_offset` now."""
        kept = bisect_left(self._offsets, end_offset)
        del self._offsets[kept:], self._values[kept:]


class VoterSetHistory(History[VoterSet]):
    """The voter sets of one log."""
