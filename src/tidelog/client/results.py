"""What clients hand to their users: plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.record_format import Header

NO_OFFSET = -1


def code_of(value: int) -> ErrorCode:
    """The code of an answer; one that is newer than this client is UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class Delivery(NamedTuple):
    """What became of one record that a producer was given. `offset` is NO_OFFSET where no broker told it: acks=0, a
    duplicate of long ago, or an error. `ticket` is what `send` returned."""

    ticket: int
    topic: str
    partition: int
    offset: int = NO_OFFSET
    timestamp: int = -1
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None

    @property
    def is_acknowledged(self) -> bool:
        return self.error is ErrorCode.NONE


class ConsumerRecord(NamedTuple):
    """One record as a consumer reads it; `leader_epoch` is of the leader that took it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    leader_epoch: int = -1
    timestamp_type: str = "CreateTime"


class GroupPlace(NamedTuple):
    """A consumer's place in its group: who commits for the group must be the member that it says (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """A group's place in a partition: the offset of the next record to process."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an asynchronous call: a value, or the code and reason of its failure."""

    ticket: int
    value: Any = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions that were added to the assignment by the group."""

    partitions: frozenset[TopicPartition] = frozenset()
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Revoked:
    """Partitions that are about to go to another member: offsets may still be committed until the next `poll`."""

    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Lost:
    """Partitions that may belong to another member already."""

    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log that was read so far is not the leader's: reading goes on at `offset` (KIP-320)."""

    partition: TopicPartition
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A consumer cannot go on by itself: with these partitions, or at all where there are none."""

    error: ErrorCode
    message: str
    partitions: Sequence[TopicPartition] = field(default=())


Event = Assigned | Revoked | Lost | Truncated | Failed
