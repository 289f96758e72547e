"""What applications were told about records is held against each other."""

import pytest

from tidelog.client.results import ConsumerRecord
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.suite import Suite
from tidelog.sim.clients.told import Told

PLACE = TopicPartition("t", 0)


class Nobody(Suite):
    """Looks at no broker; notes what it is told."""

    def __init__(self):
        super().__init__()
        self.told = []

    def served(self, name, base, end, epoch, crc):
        self.told.append((base, end, epoch, crc))

    def read_refused(self, name, position, code):
        self.told.append((position, code))


def record(offset, value, timestamp=1):
    return ConsumerRecord("t", 0, offset, timestamp, None, value, leader_epoch=3)


@pytest.fixture
def told():
    return Told(Nobody())


def test_what_was_sent_and_read_once_is_right(told):
    told.send(PLACE, b"a", once=True)
    told.acknowledge(PLACE, b"a", 5)
    told.read(PLACE, record(5, b"a"))
    told.check(PLACE, 6)
    assert [seen[:3] for seen in told.suite.told] == [(5, 6, 3)]


def test_contents_differ_by_value_and_by_time(told):
    told.send(PLACE, b"a", once=True)
    told.send(PLACE, b"b", once=True)
    for content in (record(5, b"a"), record(5, b"b"), record(5, b"a", timestamp=2)):
        told.read(PLACE, content)
    assert len({seen[3] for seen in told.suite.told}) == 3


def test_what_nobody_sent_is_named(told):
    with pytest.raises(AssertionError, match=r"I22.*nobody sent"):
        told.read(PLACE, record(0, b"a"))


def test_an_acknowledged_record_that_is_not_read_where_it_was_told_is_named(told):
    told.send(PLACE, b"a", once=True)
    told.acknowledge(PLACE, b"a", 5)
    told.check(PLACE, 5)
    with pytest.raises(AssertionError, match=r"I10.*acknowledged at 5"):
        told.check(PLACE, 6)
    told.read(PLACE, record(4, b"a"))
    with pytest.raises(AssertionError, match=r"I10.*acknowledged at 5"):
        told.check(PLACE, 6)


def test_a_record_that_stands_twice_is_named_unless_it_was_sent_under_other_numbers(told):
    told.send(PLACE, b"a", once=True)
    told.read(PLACE, record(1, b"a"))
    told.read(PLACE, record(1, b"a"))
    told.check(PLACE, 9)
    told.read(PLACE, record(2, b"a"))
    with pytest.raises(AssertionError, match=r"I26.*more than once"):
        told.check(PLACE, 9)
    told.may_repeat(PLACE, b"a")
    told.check(PLACE, 9)


def test_of_a_free_topic_nothing_is_held_against_anybody(told):
    told.free.add("t")
    told.read(PLACE, record(0, b"a"))
    told.cut(PLACE, 3)
    told.check(PLACE, 9)
    assert told.suite.told == []


def test_a_log_that_is_cut_below_what_was_read_is_told(told):
    told.cut(PLACE, 3)
    assert told.suite.told == [(3, ErrorCode.OFFSET_OUT_OF_RANGE)]
