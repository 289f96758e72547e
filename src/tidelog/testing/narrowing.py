"""Faults of one topic or partition: which requests name it, and how one is answered whose other entries are served.

A request is divided by the lists in which it names topics (`api.parts`). The broker is given what is left of it, and
the entries that fail are added to its answer. Metadata is different: it is served as a whole, because it names brokers,
too, and then its answer is changed.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

from tidelog.api.parts import SPLIT, Path, part, paths
from tidelog.errors import ErrorCode
from tidelog.wire.message import key_of, replace
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.records.fetch import FetchRequest, FetchResponse
from tidelog.wire.refusals import ENTRIES, ITSELF, Entries, refused

FETCH, METADATA, OFFSET_FETCH, ADD_PARTITIONS_TO_TXN = 1, 3, 9, 24
REASON = "injected by tidelog.testing"
NO_SESSION = -1
"""The session epoch of a fetch that wants none."""

_LISTS = {key: SPLIT.get(key) or ENTRIES[key] for key in (0, 1, 2, 3, 8, 9, 19, 20, 21, 23, 24, 28, 37, 43, 47, 61, 75)}
"""The lists in which requests name topics, by API key."""
_PARTITION = {"index", "partition", "partition_index", "partition_id"}

TopicName = Callable[[bytes], str | None]
"""The name of the topic with this id, if the broker knows it."""


class Place(NamedTuple):
    """A topic, or one of its partitions."""

    topic: str
    partition: int | None = None

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


class Failure(NamedTuple):
    """The error code of a topic or partition."""

    place: Place
    code: ErrorCode


class Divided(NamedTuple):
    """`left` is what the broker serves, None if nothing is left; `complete` adds the failed entries to its answer, or
    to an empty one."""

    left: Any | None
    complete: Callable[[Any], None]


def names_topics(key: int) -> bool:
    """Whether requests of the API name topics."""
    return key in _LISTS


def names_partitions(key: int) -> bool:
    """Whether they name partitions, too."""
    pairs = (pair for level in _levels(_LISTS[key][0]) for pair in level.named)
    return key == METADATA or any(theirs in _PARTITION for _, theirs in pairs)


def concerns(request: Any, place: Place, topic_name: TopicName) -> bool:
    """Whether the request names the topic or the partition. One for the metadata of a topic, or of all topics, concerns
    every partition."""
    if key_of(request) == METADATA:
        named = [each.name or topic_name(each.topic_id) for each in request.topics or ()]
        return not named or place.topic in named
    lists = _LISTS[key_of(request)]
    return any(_has(place, path, each, topic_name) for each in lists for path in paths(request, each))


def divide(request: Any, failures: Sequence[Failure], topic_name: TopicName) -> Divided:
    """Take what fails out of a request; where an entry is named twice, the last failure counts."""
    left: Any = copy(request)
    is_left = False
    answers: list[tuple[Entries, list[Any]]] = []
    for entries in _LISTS[key_of(request)]:
        by_code: dict[ErrorCode, list[Path]] = {}
        for path in paths(request, entries):
            codes = [code for place, code in failures if _has(place, path, entries, topic_name)]
            by_code.setdefault(codes[-1] if codes else ErrorCode.NONE, []).append(path)
        spared = by_code.pop(ErrorCode.NONE, [])
        if by_code and key_of(request) == ADD_PARTITIONS_TO_TXN:  # all partitions are added, or none
            by_code[ErrorCode.OPERATION_NOT_ATTEMPTED], spared = spared, []
        if by_code:
            left = part(left, entries, spared)
            answers += [(entries, _failed(request, entries, found, code)) for code, found in by_code.items() if found]
        is_left = is_left or bool(spared)

    def complete(response: Any) -> None:
        for entries, failed in answers:
            _add(getattr(response, entries.answers), failed, entries)

    if key_of(request) == FETCH:
        left.max_wait_ms = 0  # an error is answered at once
        left.session_epoch = NO_SESSION
    return Divided(left if is_left else None, complete)


def without_session(request: FetchRequest) -> FetchRequest | FetchResponse:
    """The fetch in such a way that it and the next ones name all partitions, or the answer that makes the client send
    one that does. Fetches of a session name only what has changed."""
    if request.session_epoch > 0:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    return replace(request, session_epoch=NO_SESSION)


def fail_topics(response: Any, code: ErrorCode) -> None:
    """All topics of a Metadata answer fail. The brokers stay: a client that receives none forgets all that it knew."""
    for topic in response.topics:
        topic.error_code, topic.partitions = code, []


def fail_metadata(response: Any, failures: Sequence[Failure]) -> None:
    """Some topics or partitions of a Metadata answer fail. A topic that fails has no partitions, a partition no
    leader."""
    for topic in response.topics:
        for place, code in failures:
            if place == Place(topic.name):
                topic.error_code, topic.partitions = code, []
            for partition in topic.partitions:
                if place == Place(topic.name, partition.partition_index):
                    partition.error_code, partition.leader_id = code, -1


def empty_answer(request: Any) -> Any:
    """A response without entries."""
    return SCHEMAS[key_of(request)].response()


def _failed(request: Any, entries: Entries, found: Sequence[Path], code: ErrorCode) -> list[Any]:
    """The answers to these entries. What is around them has no error."""
    answers = refused(part(request, entries, found), entries, code, REASON)
    level, around = entries, answers
    while level.inner is not None:
        for each in around:
            if hasattr(each, level.code):
                setattr(each, level.code, ErrorCode.NONE)
        around = [inner for each in around for inner in getattr(each, level.inner.answers)]
        level = level.inner
    return answers


def _add(whole: list[Any], answers: Sequence[Any], entries: Entries) -> None:
    """Add answers to those of the broker, in the entry around them that it has made."""
    for each in answers:
        inner = entries.inner
        same = inner and next((old for old in whole if _names(old, entries) == _names(each, entries)), None)
        if inner and same:
            _add(getattr(same, inner.answers), getattr(each, inner.answers), inner)
        else:
            whole.append(each)


def _names(answer: Any, entries: Entries) -> list[Any]:
    return [getattr(answer, theirs) for _, theirs in entries.named]


def _levels(entries: Entries) -> Iterator[Entries]:
    level: Entries | None = entries
    while level is not None:
        yield level
        level = level.inner


def _has(place: Place, path: Path, entries: Entries, topic_name: TopicName) -> bool:
    """Whether the entry is in the place."""
    topic = partition = None
    for each, level in zip(path, _levels(entries), strict=False):
        for ours, theirs in level.named:
            value = each if ours == ITSELF else getattr(each, ours)
            if theirs in ("name", "topic"):
                topic = value or topic
            elif theirs == "topic_id":
                topic = topic or topic_name(value)
            elif theirs in _PARTITION:
                partition = value
    return topic == place.topic and place.partition in (None, partition)
