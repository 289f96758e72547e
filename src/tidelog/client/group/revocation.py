"""Giving partitions up, so that what was processed gets committed first.

NONE → WANTED (commit first) → COMMITTED → TOLD (`Revoked` is out) → NONE (the user polled again)
"""

from enum import Enum, auto

from tidelog.model import TopicPartition


class Step(Enum):
    NONE = auto()
    WANTED = auto()
    COMMITTED = auto()
    TOLD = auto()


class Revocation:
    """One member's; `partitions` are those on their way out."""

    def __init__(self) -> None:
        self.step = Step.NONE
        self.partitions: frozenset[TopicPartition] = frozenset()

    def __repr__(self) -> str:
        return f"<Revocation {self.step.name} {len(self.partitions)} partitions>"

    @property
    def is_over(self) -> bool:
        return self.step is Step.NONE

    def want(self, partitions: frozenset[TopicPartition]) -> None:
        """Begin with these; nothing happens for none."""
        if partitions:
            self.step = Step.WANTED
            self.partitions = partitions

    def committed(self) -> None:
        if self.step is Step.WANTED:
            self.step = Step.COMMITTED

    def polled(self) -> None:
        if self.step is Step.TOLD:
            self.cancel()

    def take(self) -> frozenset[TopicPartition]:
        """The partitions to be told of now, once; none at any other step."""
        if self.step is not Step.COMMITTED:
            return frozenset()
        self.step = Step.TOLD
        return self.partitions

    def cancel(self) -> None:
        self.step = Step.NONE
        self.partitions = frozenset()
