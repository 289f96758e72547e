"""What groups committed, as their members were answered, and which offsets a read may return.

I29 (S): an acknowledged commit is what OffsetFetch returns after a failover of the group's coordinator; no commit of a
generation is accepted once the group has a later one. Under the consumer protocol each member has its own epoch, and no
commit of a partition is accepted once another member had it in a later epoch. An offset that was committed in a
transaction is read if and only if the transaction was committed.

A read may return any commit that was not certainly replaced before the read began. A commit is replaced by an
acknowledged one that began after it had ended. One without an answer, or whose connection broke meanwhile, may still be
applied at any later time.
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
    """One offset of one partition; times in microseconds.

    `replaceable_at` is when the last attempt to commit it had certainly ended.
    """

    offset: int
    began: int
    replaceable_at: int = NEVER


@dataclass(slots=True)
class PartitionCommits:
    """One group's commits of one partition. `acknowledged` are (began, ended) of acknowledged ones."""

    commits: list[Commit] = field(default_factory=lambda: [Commit(NOTHING, 0, 0)])
    acknowledged: list[tuple[int, int]] = field(default_factory=list)

    def may_be_read(self, since: int) -> set[int]:
        """Return the offsets that a read may return that began at `since` and ends now."""
        replaced_before = max((began for began, ended in self.acknowledged if ended < since), default=0)
        return {commit.offset for commit in self.commits if commit.replaceable_at >= replaced_before}

    def forget(self, now: int) -> None:
        """Drop commits that were replaced long ago."""
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
        return f"Commits({len(self._commits)} partitions, {self.reads} reads)"

    @property
    def is_void(self) -> bool:
        """Whether the coordinator may have lost commits."""
        return bool(self.ghosts.of(GROUPS).loss_allowed)

    def partition_commits(self, group: str, name: TopicPartition) -> PartitionCommits:
        return self._commits.setdefault((group, name), PartitionCommits())

    # Commits.

    def begin(self, group: str, name: TopicPartition, offset: int, now: int) -> Commit:
        commit = Commit(offset, now)
        self.partition_commits(group, name).commits.append(commit)
        return commit

    def acknowledge(self, group: str, name: TopicPartition, commit: Commit, now: int, *, for_sure: bool) -> None:
        """Record an acknowledged commit. `for_sure`: no attempt of it can be applied later."""
        partition_commits = self.partition_commits(group, name)
        partition_commits.acknowledged.append((commit.began, now))
        if for_sure:
            commit.replaceable_at = now

    def withdraw(self, group: str, name: TopicPartition, commit: Commit) -> None:
        """Remove a commit whose transaction was aborted: it must never be read."""
        commits = self.partition_commits(group, name).commits
        if commit in commits:
            commits.remove(commit)

    def read(self, group: str, name: TopicPartition, offset: int, since: int) -> None:
        """Check an OffsetFetch response; the request was sent to the group's coordinator at `since`."""
        if not self.is_void:
            self.reads += 1
            partition_commits = self.partition_commits(group, name)
            right = partition_commits.may_be_read(since) | ({NOTHING} if self.ghosts.aged else set())
            assert offset in right, f"I29: {group} at {name} reads {offset}; expected one of {sorted(right)}"
            partition_commits.forget(since)

    # Generations.

    def generation_reached(self, group: str, generation: int) -> None:
        """Record that a member learned of this generation."""
        self.generations[group] = max(generation, self.generations.get(group, NOTHING))

    def reset_generations(self, group: str) -> None:
        """Forget the generations of a group that counts from the start again."""
        self.generations.pop(group, None)
        self._owners = {key: owner for key, owner in self._owners.items() if key[0] != group}

    def owns(self, group: str, epoch: int, owner: str, names: Iterable[TopicPartition]) -> None:
        """Record that a member owns these partitions in this epoch."""
        for name in names:
            self._owners[group, name] = max((epoch, owner), self._owners.get((group, name), (NOTHING, "")))

    def outranked(self, group: str, epoch: int, owner: str, names: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return which of these partitions another member had in a later epoch."""
        found = {name: self._owners.get((group, name), (NOTHING, owner)) for name in names}
        return [name for name, (latest, other) in found.items() if latest > epoch and other != owner]

    def committed_in(self, group: str, generation: int, newest: int) -> None:
        """Check an acknowledged commit of this generation, which began when the group was at `newest`."""
        assert generation >= newest or self.is_void or self.ghosts.aged, (
            f"I29: {group} accepted a commit of generation {generation} after {newest}"
        )
