"""What groups committed, as their members were told, and what may be read of it.

I29 (S): an acknowledged commit is what OffsetFetch returns after a failover of the group's coordinator; no commit of a
generation is taken once the group has gone on to a later one. Under the consumer protocol members are in epochs of
their own, and no commit of a partition is taken once somebody else had it in a later epoch. A position that was
committed in a transaction is read if and only if the transaction was committed.

A read may return any commit that was not replaced for sure before it began: a commit is replaced by one that began
after it had ended, and that was acknowledged. One that nobody answered, or whose connection broke meanwhile, may come
through late, at any time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.model import GROUP_TOPIC, TopicPartition
from tidelog.sim.checks.ghosts import Ghosts

GROUPS = TopicPartition(GROUP_TOPIC, 0)
NOTHING = -1
NEVER = 2**62


@dataclass(slots=True, eq=False)
class Commit:
    """One offset of one partition; times in microseconds. `replaceable_at`: when the last try of it had ended for
    sure."""

    offset: int
    began: int
    replaceable_at: int = NEVER


@dataclass(slots=True)
class PartitionCommits:
    """One group's offset in one partition. `acknowledged` is the latest (began, ended) of an acknowledged commit."""

    commits: list[Commit] = field(default_factory=lambda: [Commit(NOTHING, 0, 0)])
    acknowledged: list[tuple[int, int]] = field(default_factory=list)

    def may_be_read(self, since: int) -> set[int]:
        """The offsets that a read may return which began then and ended now."""
        replaced_before = max((began for began, ended in self.acknowledged if ended < since), default=0)
        return {commit.offset for commit in self.commits if commit.replaceable_at >= replaced_before}

    def forget(self, now: int) -> None:
        """Nobody reads any more what was replaced long ago."""
        last = max((began for began, ended in self.acknowledged if ended < now), default=0)
        self.commits = [commit for commit in self.commits if commit.replaceable_at >= last]
        self.acknowledged = [(began, ended) for began, ended in self.acknowledged if began >= last]


class Commits:
    def __init__(self, ghosts: Ghosts) -> None:
        self.ghosts = ghosts
        self.reads = 0
        self.generations: dict[str, int] = {}
        self._owners: dict[tuple[str, TopicPartition], tuple[int, str]] = {}
        self._commits: dict[tuple[str, TopicPartition], PartitionCommits] = {}

    def __repr__(self) -> str:
        return f"Commits({len(self._commits)} places, {self.reads} reads)"

    @property
    def is_void(self) -> bool:
        """Whether the coordinator may have forgotten."""
        return bool(self.ghosts.of(GROUPS).loss_allowed)

    def partition_commits(self, group: str, name: TopicPartition) -> PartitionCommits:
        return self._commits.setdefault((group, name), PartitionCommits())

    # Commits.

    def begin(self, group: str, name: TopicPartition, offset: int, now: int) -> Commit:
        commit = Commit(offset, now)
        self.partition_commits(group, name).commits.append(commit)
        return commit

    def acknowledge(self, group: str, name: TopicPartition, commit: Commit, now: int, *, for_sure: bool) -> None:
        """`for_sure`: no try of it can come through any more."""
        partition_commits = self.partition_commits(group, name)
        partition_commits.acknowledged.append((commit.began, now))
        if for_sure:
            commit.replaceable_at = now

    def withdraw(self, group: str, name: TopicPartition, commit: Commit) -> None:
        """It was part of a transaction that was aborted: nobody reads it ever."""
        commits = self.partition_commits(group, name).commits
        if commit in commits:
            commits.remove(commit)

    def read(self, group: str, name: TopicPartition, offset: int, since: int) -> None:
        """OffsetFetch returned this, asked of the group's coordinator at `since`."""
        if not self.is_void:
            self.reads += 1
            partition_commits = self.partition_commits(group, name)
            right = partition_commits.may_be_read(since) | ({NOTHING} if self.ghosts.aged else set())
            assert offset in right, f"I29: {group} at {name} reads {offset}, and committed {sorted(right)}"
            partition_commits.forget(since)

    # Generations.

    def generation_reached(self, group: str, generation: int) -> None:
        """A member was told of this generation."""
        self.generations[group] = max(generation, self.generations.get(group, NOTHING))

    def reset_generations(self, group: str) -> None:
        """The group counts its generations from the start."""
        self.generations.pop(group, None)
        self._owners = {key: owner for key, owner in self._owners.items() if key[0] != group}

    def owns(self, group: str, epoch: int, owner: str, names: Iterable[TopicPartition]) -> None:
        """A member was told that it has these in this epoch."""
        for name in names:
            self._owners[group, name] = max((epoch, owner), self._owners.get((group, name), (NOTHING, "")))

    def outranked(self, group: str, epoch: int, owner: str, names: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Which of these somebody else had in a later epoch."""
        found = {name: self._owners.get((group, name), (NOTHING, owner)) for name in names}
        return [name for name, (latest, other) in found.items() if latest > epoch and other != owner]

    def committed_in(self, group: str, generation: int, newest: int) -> None:
        """A commit of this generation was acknowledged, which began when the group had been at `newest`."""
        assert generation >= newest or self.is_void or self.ghosts.aged, (
            f"I29: {group} took a commit of {generation} after {newest}"
        )
