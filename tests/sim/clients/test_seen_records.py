"""What applications received of records is compared."""

import pytest

from tidelog.client.results import ConsumerRecord
from tidelog.errors import ErrorCode
from tidelog.model import TopicPartition
from tidelog.sim.checks.suite import Suite
from tidelog.sim.clients.seen_records import SeenRecords

PLACE = TopicPartition("t", 0)


class Nobody(Suite):
    """Looks at no broker; notes what it receives."""

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
def seen_records():
    return SeenRecords(Nobody())


def test_what_was_sent_and_read_once_is_right(seen_records):
    seen_records.send(PLACE, b"a", once=True)
    seen_records.acknowledge(PLACE, b"a", 5)
    seen_records.read(PLACE, record(5, b"a"))
    seen_records.check(PLACE, 6)
    assert [seen[:3] for seen in seen_records.suite.told] == [(5, 6, 3)]


def test_contents_differ_by_value_and_by_time(seen_records):
    seen_records.send(PLACE, b"a", once=True)
    seen_records.send(PLACE, b"b", once=True)
    for content in (record(5, b"a"), record(5, b"b"), record(5, b"a", timestamp=2)):
        seen_records.read(PLACE, content)
    assert len({seen[3] for seen in seen_records.suite.told}) == 3


def test_what_nobody_sent_is_named(seen_records):
    with pytest.raises(AssertionError, match=r"I22.*nobody sent"):
        seen_records.read(PLACE, record(0, b"a"))


def test_an_acknowledged_record_that_is_not_read_where_it_was_told_is_named(seen_records):
    seen_records.send(PLACE, b"a", once=True)
    seen_records.acknowledge(PLACE, b"a", 5)
    seen_records.check(PLACE, 5)
    with pytest.raises(AssertionError, match=r"I10.*acknowledged at 5"):
        seen_records.check(PLACE, 6)
    seen_records.read(PLACE, record(4, b"a"))
    with pytest.raises(AssertionError, match=r"I10.*acknowledged at 5"):
        seen_records.check(PLACE, 6)


def test_a_record_that_stands_twice_is_named_unless_it_was_sent_under_other_numbers(seen_records):
    seen_records.send(PLACE, b"a", once=True)
    seen_records.read(PLACE, record(1, b"a"))
    seen_records.read(PLACE, record(1, b"a"))
    seen_records.check(PLACE, 9)
    seen_records.read(PLACE, record(2, b"a"))
    with pytest.raises(AssertionError, match=r"I26.*more than once"):
        seen_records.check(PLACE, 9)
    seen_records.may_repeat(PLACE, b"a")
    seen_records.check(PLACE, 9)


def test_of_a_free_topic_nothing_is_held_against_anybody(seen_records):
    seen_records.free.add("t")
    seen_records.read(PLACE, record(0, b"a"))
    seen_records.cut(PLACE, 3)
    seen_records.check(PLACE, 9)
    assert seen_records.suite.told == []


def test_a_log_that_is_cut_below_what_was_read_is_reported(seen_records):
    seen_records.cut(PLACE, 3)
    assert seen_records.suite.told == [(3, ErrorCode.OFFSET_OUT_OF_RANGE)]
