"""What a member of a group is under either protocol, classic or consumer, and how it gives partitions up.

A revocation waits for the commit of what was processed:

    NONE → WANTED (commit first) → COMMITTED → REPORTED (`Revoked` is out) → NONE (the user polled again)
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from enum import Enum, auto

from tidelog.client.cluster import Cluster
from tidelog.client.coordinator import CoordinatorFinder
from tidelog.client.link import Answer
from tidelog.client.options import ConsumerOptions
from tidelog.client.results import Event, Failed, Lost
from tidelog.errors import ErrorCode
from tidelog.model import Time, TopicPartition


class RevocationStep(Enum):
    NONE = auto()
    WANTED = auto()
    COMMITTED = auto()
    REPORTED = auto()


class Revocation:
    """One member's revocation; `partitions` are those being given up."""

    def __init__(self) -> None:
        self.step = RevocationStep.NONE
        self.partitions: frozenset[TopicPartition] = frozenset()

    def __repr__(self) -> str:
        return f"<Revocation {self.step.name} {len(self.partitions)} partitions>"

    @property
    def is_done(self) -> bool:
        return self.step is RevocationStep.NONE

    def start(self, partitions: frozenset[TopicPartition]) -> None:
        """Give up these partitions; nothing happens if there are none."""
        if partitions:
            self.step = RevocationStep.WANTED
            self.partitions = partitions

    def committed(self) -> None:
        if self.step is RevocationStep.WANTED:
            self.step = RevocationStep.COMMITTED

    def polled(self) -> None:
        if self.step is RevocationStep.REPORTED:
            self.cancel()

    def take_revoked(self) -> frozenset[TopicPartition]:
        """The partitions to report as revoked now, once; none at any other step."""
        if self.step is not RevocationStep.COMMITTED:
            return frozenset()
        self.step = RevocationStep.REPORTED
        return self.partitions

    def cancel(self) -> None:
        self.step = RevocationStep.NONE
        self.partitions = frozenset()


NO_GENERATION = -1


class MemberState(Enum):
    OUT = auto()
    JOINING = auto()
    ASSIGNING = auto()
    SYNCING = auto()
    STABLE = auto()


class Member(ABC):
    """One member. `owned` is what it may read; the consumer takes the events."""

    def __init__(self, cluster: Cluster, finder: CoordinatorFinder, group: str, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._finder = finder
        self._group = group
        self._options = options
        self._backoff = cluster.backoff()
        self.state = MemberState.OUT
        self.member_id = ""
        self.generation = NO_GENERATION
        self.topics: frozenset[str] = frozenset()
        self.owned: frozenset[TopicPartition] = frozenset()
        self.events: list[Event] = []
        self.failure: Failed | None = None
        self._revocation = Revocation()
        self._heartbeat_at = 0
        self._poll_deadline = 0
        self._is_polled = False  # the user polled within the last max.poll.interval.ms
        self._attempt = 0

    def __repr__(self) -> str:
        state = f"{self.state.name} generation={self.generation}"
        return f"<{type(self).__name__} {self._group} {state} owned={len(self.owned)}>"

    @property
    def must_commit(self) -> bool:
        """Whether partitions are about to be revoked and what was processed must be committed first."""
        return self._revocation.step is RevocationStep.WANTED

    @property
    def skips_assignment(self) -> bool:
        """Whether it leads its group with the assignment of an earlier process of the same instance."""
        return False

    # Calls of the consumer.

    @abstractmethod
    def subscribe(self, topics: Collection[str]) -> None:
        """Subscribe to these topics from now on."""

    def polled(self, now: Time) -> None:
        """The user called `poll`, and has seen every event so far."""
        self._poll_deadline = now.mono + self._options.max_poll_interval_ms
        self._is_polled = True
        self._revocation.polled()

    def committed(self) -> None:
        """The commit before a revocation has finished, successfully or not."""
        self._revocation.committed()

    @abstractmethod
    def leave(self, reason: str, now: Time) -> None:
        """Leave at once."""

    @abstractmethod
    def expelled(self, now: Time) -> None:
        """A response says that the group continued without this member."""

    @abstractmethod
    def rebalancing(self) -> None:
        """A response says that the group is rebalancing."""

    # Time.

    def advance(self, now: Time) -> None:
        if self.failure is not None or not self.topics:
            return
        if self._finder.refused:
            self._fail(self._finder.refused, "the group's coordinator cannot be found")
            return
        node = self._finder.node(now)
        if self.state is not MemberState.OUT and now.mono >= self._poll_deadline:
            self._expire(now)
            return
        self._advance_member(node, now)

    @abstractmethod
    def _advance_member(self, node: int | None, now: Time) -> None:
        """Do what is due. `node` is the coordinator, None while it is unknown."""

    def _expire(self, now: Time) -> None:
        """Leave: a user that stopped polling must not hold partitions."""
        lost = self.owned
        self._is_polled = False
        self.leave("max.poll.interval.ms passed without a poll", now)
        if lost:
            self.events.append(Lost(lost))

    @property
    @abstractmethod
    def deadline(self) -> int | None:
        """The monotonic millisecond at which `advance` is due."""

    # Failures.

    def _lose_partitions(self) -> None:
        """The group continues without this member."""
        lost = self.owned
        self._reset()
        if lost:
            self.events.append(Lost(lost))

    def _reset(self) -> None:
        self.state = MemberState.OUT
        self.generation = NO_GENERATION
        self.owned = frozenset()
        self._revocation.cancel()
        self._attempt += 1

    def _fail(self, code: ErrorCode, reason: str) -> None:
        self._lose_partitions()
        self.failure = Failed(code, reason)
        self.events.append(self.failure)


def ignore_answer(_answer: Answer, _now: Time) -> None:
    """A member that leaves does not wait for the response."""
