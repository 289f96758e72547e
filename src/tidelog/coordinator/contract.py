"""The interface between a shard and its state machine."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from tidelog.errors import ErrorCode

COORDINATOR_CODES = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error code that a client gets when the partition refuses an append; other codes pass unchanged."""


class Change(NamedTuple):
    """A record to write, as messages of `wire.messages`; a None value is a tombstone."""

    key: Any
    value: Any


class ProducerIdAndEpoch(NamedTuple):
    """The transaction that changes belong to: they take effect when a marker commits it."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class Result:
    """The outcome of an operation. A None response means that no request waits for this operation itself.

    `on_done` is called with NONE once the changes are committed, or with the error code otherwise. With a `transaction`
    the changes are part of it. `confirm`: the response, which comes from memory, would be wrong if another broker
    coordinates by now, and is sent only once it is proved that none does.
    """

    response: Any = None
    changes: list[Change] = field(default_factory=list)
    on_done: "Callable[[ErrorCode], Result] | None" = None
    transaction: ProducerIdAndEpoch | None = None
    confirm: bool = False


Run = Callable[[], Result]
Refuse = Callable[[ErrorCode], Any]


class Machine(Protocol):
    """The state that one partition holds, and what changes in it mean."""

    @property
    def confirmation(self) -> Change | None:
        """A change without effect, which is committed before a client is refused for good; None if clients recover from
        each refusal."""

    def encode(self, change: Change) -> tuple[bytes, bytes | None]: ...

    def decode(self, key: bytes, value: bytes | None) -> Change | None:
        """None if this machine does not hold records of this kind."""

    def replay(self, offset: int, change: Change) -> None: ...

    def replay_pending(self, offset: int, change: Change, producer_id: int) -> None:
        """The change takes effect when the producer's transaction is committed."""

    def replay_end(self, offset: int, producer_id: int, *, committed: bool) -> None:
        """A marker ended the producer's transaction."""

    def commit(self, high_watermark: int) -> None:
        """Changes below the high watermark become visible to readers."""

    def loaded(self) -> Iterable[Run]:
        """Everything is replayed: set timers, and return the operations to run first."""

    def resigned(self) -> None:
        """Answer every waiting request with NOT_COORDINATOR."""
