"""Requests that a gatherer yields, and the answers that it gets back."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog.client.admin import ANY, Target
from tidelog.client.results import code_of
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.records.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LATEST, EARLIEST = -1, -2

T = TypeVar("T")
K = TypeVar("K")


class Ask(NamedTuple):
    """One request. `newest` bounds its version."""

    request: Any
    target: Target = ANY
    newest: int = 32767


class Pause(NamedTuple):
    """Let time pass before the next requests."""

    ms: int


class Answer(NamedTuple):
    """The response to an `Ask`, or None with the `error` that prevented it; `began_ms` and `ended_ms` are times of the
    asker's wall clock between which it was given."""

    response: Any = None
    error: ErrorCode = ErrorCode.NONE
    began_ms: int = 0
    ended_ms: int = 0


Steps = Generator[Sequence[Ask] | Pause, Sequence[Answer], T]
"""Yields requests that may be in flight at the same time, and is sent their answers in order; none for a `Pause`."""


def ask_all(asks: Mapping[K, Ask]) -> Steps[dict[K, Answer]]:
    """Ask at the same time; the answers by the same keys."""
    answers = (yield list(asks.values())) if asks else ()
    return dict(zip(asks, answers, strict=True))


def top_error(answer: Answer) -> ErrorCode:
    """Why there is no answer, or the error code of the whole response."""
    if answer.response is None:
        return answer.error
    return code_of(getattr(answer.response, "error_code", 0))


def refused(api: str, broker: int, error: ErrorCode) -> Iterator[str]:
    """The sentence about a request that was not answered; none if it was, or if the broker does not have the API."""
    if error not in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION):
        yield f"Broker {broker} answers {api} with {error.name}."


def by_leader(partitions: Iterable[tuple[TopicPartition, int]]) -> dict[int, list[TopicPartition]]:
    """Partitions by their leaders, from (partition, leader); those without a leader are left out."""
    found: dict[int, list[TopicPartition]] = {}
    for partition, leader in partitions:
        if leader >= 0:
            found.setdefault(leader, []).append(partition)
    return found


def list_offsets(partitions: Iterable[TopicPartition], timestamp: int, *, isolation: int = 0) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition_index=index, timestamp=timestamp))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=found) for name, found in topics.items()],
    )


def listed_offsets(answers: Iterable[Answer]) -> dict[TopicPartition, tuple[int, ErrorCode]]:
    """(offset, error) of each partition in responses of ListOffsets."""
    return {
        TopicPartition(topic.name, each.partition_index): (each.offset, code_of(each.error_code))
        for answer in answers
        if answer.response is not None
        for topic in answer.response.topics
        for each in topic.partitions
    }
