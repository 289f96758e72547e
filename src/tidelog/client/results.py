"""What clients return to their users: plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.record_format import Header

NO_OFFSET = -1


def code_of(value: int) -> ErrorCode:
    """The error code; UNKNOWN_SERVER_ERROR for one that is newer than this client."""
    try:
        return ErrorCode(value)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


class Delivery(NamedTuple):
    """The outcome of one record given to a producer. `offset` is NO_OFFSET if no broker reported it: acks=0, an old
    duplicate, or an error. `ticket` is what `send` returned."""

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
    """One record as a consumer reads it; `leader_epoch` is that of the leader that appended it."""

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
    """A consumer's membership in its group. Only a current member can commit for the group (KIP-447)."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


class CommittedOffset(NamedTuple):
    """A group's committed offset in a partition: that of the next record to process."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class Done:
    """The end of an asynchronous call: a value, or the error code and the reason."""

    ticket: int
    value: Any = None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Partitions that the group added to the assignment."""

    partitions: frozenset[TopicPartition] = frozenset()
    generation: int = -1


@dataclass(frozen=True, slots=True)
class Revoked:
    """Partitions that will move to another member: offsets can still be committed until the next `poll`."""

    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Lost:
    """Partitions that may belong to another member already."""

    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Truncated:
    """The log that was read so far diverges from the leader's: reading continues at `offset` (KIP-320)."""

    partition: TopicPartition
    position: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A failure that the consumer cannot resolve: of these partitions, or of the whole consumer if there are none."""

    error: ErrorCode
    message: str
    partitions: Sequence[TopicPartition] = field(default=())


Event = Assigned | Revoked | Lost | Truncated | Failed
