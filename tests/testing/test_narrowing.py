"""Faults of one topic or partition: which requests they concern, and that all else in a request is answered as before."""

import pytest

from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.testing import narrowing
from tidelog.testing.narrowing import Failure, Place, concerns, divide, fail_metadata, names_partitions
from tidelog.wire.message import fields
from tidelog.wire.messages import SCHEMAS
from tidelog.wire.messages.records.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.wire.messages.topics.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.refusals import ITSELF, refused

PARTITION = narrowing._PARTITION
LISTS = [
    pytest.param(key, entries, id=f"{SCHEMAS[key].name}-{entries.requested}")
    for key, lists in narrowing._LISTS.items()
    for entries in lists
    if key != narrowing.METADATA
]
FAILS, SERVED, NOT_ATTEMPTED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NONE,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


def nothing(_topic_id):
    return None


def filled(holder, level, topics):
    """Let the list at this level name these topics with partitions 0 and 1; what is around them is there once."""
    element = next(field.element for field in fields(type(holder)) if field.name == level.requested)
    names = dict(level.named)
    if any(theirs in PARTITION for theirs in names.values()):
        wanted = [0, 1]
    elif {"name", "topic"} & set(names.values()):
        wanted = topics
    else:
        wanted = [""]
    ours = next((ours for ours, theirs in level.named if theirs in PARTITION | {"name", "topic"}), ITSELF)
    made = []
    for value in wanted:
        each = value if ours == ITSELF and isinstance(element, type) is False else element()
        if isinstance(element, type):
            if ours != ITSELF:
                setattr(each, ours, value)
            if level.inner is not None:
                filled(each, level.inner, topics)
        made.append(each)
    setattr(holder, level.requested, made)


def codes(answers, level, topic=None):
    """(topic, partition) → code, of the answers at this level."""
    found = {}
    for each in answers:
        named = {theirs: getattr(each, theirs) for _, theirs in level.named}
        topic = named.get("name", named.get("topic", topic))
        partition = next((value for theirs, value in named.items() if theirs in PARTITION), None)
        if level.inner is None:
            found[topic, partition] = getattr(each, level.code)
        else:
            assert not getattr(each, level.code, 0), "what is around a failed entry has no error"
            found |= codes(getattr(each, level.inner.answers), level.inner, topic)
    return found


@pytest.mark.parametrize(("key", "entries"), LISTS)
@pytest.mark.parametrize("partition", [None, 1])
def test_what_is_not_named_is_served(key, entries, partition):
    if partition is not None and not names_partitions(key):
        return
    request = SCHEMAS[key].request()
    filled(request, entries, ["t", "other"])
    place = Place("t", partition)
    assert concerns(request, place, nothing)
    assert not concerns(request, Place("t2", partition), nothing)
    left, complete = divide(request, [Failure(place, FAILS)], nothing)
    if key == narrowing.ADD_PARTITIONS_TO_TXN:
        spared = NOT_ATTEMPTED
        assert left is None
    else:
        spared = SERVED
        assert not concerns(left, place, nothing)
    answer = SCHEMAS[key].response()
    if left is not None:
        setattr(answer, entries.answers, refused(left, entries, SERVED))
    complete(answer)
    found = codes(getattr(answer, entries.answers), entries)
    partitions = [0, 1] if names_partitions(key) else [None]
    assert found == {
        (topic, number): FAILS if topic == "t" and partition in (None, number) else spared
        for topic in ("t", "other")
        for number in partitions
    }
    assert len(getattr(answer, entries.answers)) == len({topic for topic, _ in found}) or key in (9, 24)


def test_topics_are_found_by_their_ids():
    ids = {b"1" * 16: "t", b"2" * 16: "other"}
    request = FetchRequest(
        topics=[FetchTopic(topic_id=each, partitions=[FetchPartition(partition=0)]) for each in ids],
        session_epoch=0,
        max_wait_ms=500,
    )
    assert concerns(request, Place("t", 0), ids.get)
    assert not concerns(request, Place("t", 0), nothing)
    left, complete = divide(request, [Failure(Place("t", 0), FAILS)], ids.get)
    assert [topic.topic_id for topic in left.topics] == [b"2" * 16]
    assert (left.max_wait_ms, left.session_epoch) == (0, -1), "an error is answered at once, and outside a session"
    answer = FetchResponse()
    complete(answer)
    ((topic,),) = [answer.responses]
    assert (topic.topic_id, topic.partitions[0].error_code) == (b"1" * 16, FAILS)


def test_of_two_failures_each_has_its_place_and_of_the_same_the_newest_counts():
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=n) for n in range(3)])])
    storage = ErrorCode.KAFKA_STORAGE_ERROR
    failures = [Failure(Place("t"), FAILS), Failure(Place("t", 2), storage)]
    left, complete = divide(request, failures, nothing)
    assert left is None
    answer = FetchResponse()
    complete(answer)
    (topic,) = answer.responses
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, FAILS),
        (1, FAILS),
        (2, storage),
    ]


def test_metadata_of_one_partition_loses_its_leader_and_of_a_topic_all():
    def described():
        return MetadataResponse(
            topics=[
                MetadataResponseTopic(
                    name=name,
                    partitions=[MetadataResponsePartition(partition_index=n, leader_id=1) for n in range(2)],
                )
                for name in ("t", "other")
            ]
        )

    one, whole = described(), described()
    fail_metadata(one, [Failure(Place("t", 1), ErrorCode.LEADER_NOT_AVAILABLE)])
    fail_metadata(whole, [Failure(Place("t"), ErrorCode.LEADER_NOT_AVAILABLE)])
    assert [each.leader_id for each in one.topics[0].partitions] == [1, -1]
    assert (whole.topics[0].error_code, whole.topics[0].partitions) == (ErrorCode.LEADER_NOT_AVAILABLE, [])
    assert one.topics[1] == whole.topics[1] == described().topics[1]


def test_metadata_of_all_topics_concerns_each():
    assert concerns(MetadataRequest(topics=None), Place("t", 0), nothing)
    assert concerns(MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=NO_ID)]), Place("t"), nothing)
    assert not concerns(MetadataRequest(topics=[MetadataRequestTopic(name="u", topic_id=NO_ID)]), Place("t"), nothing)
