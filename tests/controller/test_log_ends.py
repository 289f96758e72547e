"""Ends of logs are those of one life of a broker (rule 8)."""

from types import SimpleNamespace

import pytest

from tidelog.controller.commands.elections import LogEnds
from tidelog.controller.leaders import Life
from tidelog.controller.state import Topic
from tidelog.controller.tree import Assignment, LeadershipState
from tidelog.errors import ErrorCode
from tidelog.wire.messages.records.offsets import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def asked(**lives):
    """A partition whose two candidates are being asked, by the tokens 100 and 101."""
    topic = Topic("t", Assignment(b"x" * 16, {0: (0, 1)}, {}, {}), 0)
    partition = topic.add(0)
    partition.commit(LeadershipState(-1, 3, (0, 1), (10, 11)), 5)
    term = SimpleNamespace(cluster=SimpleNamespace(lives={0: Life(20), 1: lives.get("second", Life(21))}))
    logs = LogEnds()
    logs.set(term, partition, (0, 1))
    assert [(ask.target, ask.token) for ask in logs.take(0, 100)] == [(0, 100), (1, 101)]
    return logs, partition, term


def answer(end, life=-1, code=0):
    found = EpochEndOffset(partition=0, leader_epoch=2, end_offset=end, error_code=code)
    return OffsetForLeaderEpochResponse(
        topics=[OffsetForLeaderTopicResult(topic="t", partitions=[found])], broker_epoch=life
    )


@pytest.mark.parametrize("named", [True, False], ids=["names its life", "of an earlier version"])
def test_the_ends_of_all_candidates_are_known_once_all_reported(named):
    logs, partition, _ = asked()
    assert logs.answered(100, answer(80, 20 if named else -1), 1) == []
    assert logs.answered(101, answer(90, 21 if named else -1), 1) == [partition]
    assert logs.known[partition] == {0: (2, 80), 1: (2, 90)}


@pytest.mark.parametrize("named", [True, False], ids=["names its life", "of an earlier version"])
def test_an_answer_of_a_life_that_is_over_is_none(named):
    """It had reported its end, then lost its power and its tail, and was back before the answer came."""
    logs, partition, term = asked()
    term.cluster.lives = {0: Life(20), 1: Life(31)}
    logs.set(term, partition, (0, 1))
    assert logs.answered(101, answer(100, 21 if named else -1), 1) == []
    assert logs.known[partition] == {}
    assert logs.answered(100, answer(80, 20), 1) == []
    assert [ask.target for ask in logs.take(1000, 200)] == [1]
    assert logs.answered(200, answer(70, 31), 1000) == [partition]
    assert logs.known[partition] == {0: (2, 80), 1: (2, 70)}


def test_an_answer_of_a_life_that_is_not_registered_yet_is_none():
    """A broker that is back answers before its controller knows of it: only the registered life may lead."""
    logs, partition, _ = asked()
    assert logs.answered(101, answer(70, 31), 1) == []
    assert logs.known[partition] == {}
    assert [ask.target for ask in logs.take(1000, 200)] == [1]


def test_an_answer_to_a_question_that_is_withdrawn_asks_nothing_anew():
    logs, partition, term = asked()
    logs.set(term, partition, ())
    assert logs.answered(101, answer(90, 21), 1) == []
    assert logs.retry_at is None


NOT_HERE = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_who_misses_a_directory_and_has_no_replica_is_not_waited_for(order):
    logs, partition, _ = asked(second=Life(21, directories_since=21))
    answers = (answer(80, 20), answer(0, 21, NOT_HERE))
    assert [logs.answered(100 + each, answers[each], 1) for each in order] == [[], [partition]]
    assert logs.known[partition] == {0: (2, 80)}
    assert logs.is_known(partition, (0, 1))


def test_who_misses_none_has_its_replica_yet_to_create():
    logs, partition, _ = asked()
    assert logs.answered(100, answer(80, 20), 1) == []
    assert logs.answered(101, answer(0, 21, NOT_HERE), 1) == []
    assert not logs.is_known(partition, (0, 1))


def test_nobody_leads_where_nobody_has_a_replica():
    logs, partition, term = asked(second=Life(21, directories_since=21))
    term.cluster.lives[0] = Life(20, directories_since=20)
    logs.set(term, partition, ())
    logs.set(term, partition, (0, 1))
    for token, life in ((100, 20), (101, 21)):
        logs.flights[token] = token - 100, {partition: life}
        assert logs.answered(token, answer(0, life, NOT_HERE), 1) == []
    assert not logs.is_known(partition, (0, 1))
    assert logs.retry_at is not None
