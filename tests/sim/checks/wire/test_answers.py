"""I22, I24, I25 and the answers of I26 can be broken: what brokers answer clients."""

import pytest

from tests.sim.checks.support import NAME, append, batch, ghosts, replica
from tidelog.errors import ErrorCode
from tidelog.sim.checks.ghosts import Acked
from tidelog.sim.checks.wire import answers
from tidelog.sim.checks.wire.wire_tap import AckedBatch, LatestOffset, ServedRecords
from tidelog.wire.records import header

SENT = header(batch([b"a", b"b"], producer=(7, 0, 4)))
NUMBERS = (7, 0, 4, 5)


def leader(high_watermark=4, numbers=NUMBERS):
    made = replica(0, (), isr=(0, 1, 2))
    append(made, (2, 1, None, (7, 0, 2, 3)), (2, 1, None, numbers))
    made.state = made.state._replace(end=4, high_watermark=high_watermark)
    return made


def test_a_success_that_is_committed():
    made = ghosts()
    answers.check_acknowledged(made, leader(), AckedBatch(NAME, 2, SENT))
    assert made.of(NAME).acked[2].end == 4


@pytest.mark.parametrize(
    ("at", "by"),
    [(2, leader(high_watermark=3)), (0, leader()), (2, leader(numbers=(7, 0, 9, 10)))],
    ids=["beyond HW", "at another batch", "another batch there"],
)
def test_successes_that_are_not(at, by):
    with pytest.raises(AssertionError, match=r"^I25:"):
        answers.check_acknowledged(ghosts(), by, AckedBatch(NAME, at, SENT))


def test_an_offset_that_is_acknowledged_for_two_records():
    made = ghosts()
    made.of(NAME).acked[2] = Acked(2, 4, 99)
    made.of(NAME).unproven.add(0)
    answers.check_acknowledged(made, leader(), AckedBatch(NAME, 2, SENT))
    made.of(NAME).unproven.clear()
    with pytest.raises(AssertionError, match=r"^I25:"):
        answers.check_acknowledged(made, leader(), AckedBatch(NAME, 2, SENT))


def test_a_retry_with_another_answer():
    made = ghosts()
    made.of(NAME).answered[7, 0, 4] = 0
    with pytest.raises(AssertionError, match=r"^I26:"):
        answers.check_acknowledged(made, leader(), AckedBatch(NAME, 2, SENT))


def test_what_a_producer_hears_must_have_been_below_a_watermark():
    made = ghosts()
    made.of(NAME).seen_high_watermark = 4
    answers.check_acknowledged(made, leader(), AckedBatch(NAME, 2, SENT))
    answers.check_success(made, NAME, 2, 4)
    for base, end in ((4, 6), (2, 3)):
        with pytest.raises(AssertionError, match=r"^I25:"):
            answers.check_success(made, NAME, base, end)


def give(made, content, limit=2):
    answers.check_served(made, replica(0, ((2, 1),), isr=(0, 1)), ServedRecords(NAME, bytes(content), limit))


def test_records_below_the_watermark_that_read_the_same():
    made = ghosts()
    give(made, batch([b"a", b"b"]))
    give(made, batch([b"a", b"b"]))


@pytest.mark.parametrize("content", [batch([b"a", b"x"]), batch([b"a", b"b"], epoch=2), batch([b"a", b"b", b"c"])])
def test_records_that_read_otherwise_or_are_not_committed(content):
    made = ghosts()
    give(made, batch([b"a", b"b"]))
    with pytest.raises(AssertionError, match=r"^I22:"):
        give(made, content)


def test_a_broken_batch():
    content = batch([b"a", b"b"])
    content[-1] ^= 1
    with pytest.raises(AssertionError, match=r"^I22: .*broken"):
        give(ghosts(), content)


def test_what_a_consumer_reads():
    made = ghosts()
    made.of(NAME).seen_high_watermark = 4
    answers.check_read(made, NAME, 3, (4, 1, 99))
    for base, found in ((3, (4, 1, 98)), (4, (5, 1, 1))):
        with pytest.raises(AssertionError, match=r"^I22:"):
            answers.check_read(made, NAME, base, found)


def test_the_latest_offset_goes_on_and_not_back():
    made = ghosts()
    for offset, epoch in ((5, 1), (5, 1), (7, 2), (6, 1)):
        answers.check_latest(made, LatestOffset(NAME, offset, epoch))
    for offset, epoch in ((5, 1), (5, 2), (6, 3)):
        with pytest.raises(AssertionError, match=r"^I24:"):
            answers.check_latest(made, LatestOffset(NAME, offset, epoch))


@pytest.mark.parametrize(
    ("code", "restarted"),
    [(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, False), (ErrorCode.INVALID_PRODUCER_EPOCH, True)],
)
def test_a_producer_that_is_refused_for_good(code, restarted):
    answers.check_refused(ghosts(), NAME, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, restarted=True)
    with pytest.raises(AssertionError, match=r"^I26:"):
        answers.check_refused(ghosts(), NAME, code, restarted=restarted)
