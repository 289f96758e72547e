"""What `wire_tap` hands on: fetches, the sources of answers, and what clients were told; and what it remembers of
requests that are not answered yet."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.model import TopicPartition
from tidelog.wire.records import BatchHeader


class Fetched(NamedTuple):
    """A follower's fetch as its leader got it: from where, and the epoch below that place."""

    offset: int
    last_epoch: int


class Source(NamedTuple):
    """Where an answer that a follower gets came from. `epoch`: the leader epoch of who answered, when it was sent;
    `before`: at the beginning of the step in which it was. Within a step nobody can tell."""

    broker: int
    epoch: int
    before: int = -1

    def speaks_for(self, epoch: int) -> bool:
        return epoch in (self.epoch, self.before)


class Success(NamedTuple):
    """An acks=all success: where the batch was said to stand, and the batch as it was sent."""

    name: TopicPartition
    base: int
    sent: BatchHeader


class Given(NamedTuple):
    """Records that a consumer is given, and the offset that they must lie below."""

    name: TopicPartition
    records: Any
    limit: int


class Order(NamedTuple):
    """A push of a controller, and how it was answered. `known`: the newest controller epoch that the broker knew when
    it came."""

    api: str
    epoch: int
    number: int
    known: int
    code: int = 0

    def __repr__(self) -> str:
        return f"{self.api} {self.number} of controller epoch {self.epoch}"


class Latest(NamedTuple):
    """An answer to ListOffsets for the latest offset."""

    name: TopicPartition
    offset: int
    epoch: int


@dataclass(slots=True, eq=False)
class Asked:
    """A request that is not answered yet. `names`: what a follower asks for, by the epoch it believes in."""

    key: int
    version: int
    request: Any
    follower: int = -1
    names: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """What a follower reads on a connection, as its session has it: the place and the epoch. A session ends with its
    connection; what was on its way on an older one may arrive later."""

    broker_epoch: int = -1
    names: dict[TopicPartition, tuple[int, Fetched]] = field(default_factory=dict)
