"""When an answer about a transaction counts: a marker that overtakes it belongs to a transaction that is over."""

from types import SimpleNamespace

import pytest

from tests.log.support import NOW, batch, open_log, sim_disk
from tests.log.test_transactions import end
from tidelog.api.transactions import txn_offset_commit, verification
from tidelog.effects import Deferred
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.wire.messages.transactions.transaction_requests import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

HERE = TopicPartition("t", 0)


class Asking:
    """A partition, and a coordinator that says this code."""

    def __init__(self, *, code=ErrorCode.NONE, verify_only=True, log=()):
        self.log = open_log(sim_disk())
        for value in log:
            self.log.append_as_leader(bytearray(batch(value)), 0, NOW)
        partition = SimpleNamespace(name=HERE, log=self.log)
        verifying = SimpleNamespace(request=lambda *_, **__: SimpleNamespace(code=lambda _: code))
        context = SimpleNamespace(broker=SimpleNamespace(verifying=verifying))
        self.asked = verification.request(context, "id", 1, 0, [partition], verify_only=verify_only)

    def refusal(self, *, abortable=True):
        with pytest.raises(ApiError) as caught:
            self.asked.check(HERE, abortable=abortable)
        return caught.value.code


def test_an_answer_counts_once():
    asking = Asking()
    asking.asked.check(HERE, abortable=True)
    assert asking.refusal() == ErrorCode.INVALID_TXN_STATE


def test_a_marker_makes_a_verification_void():
    asking = Asking()
    end(asking.log, 1, commit=False)
    assert asking.refusal() == ErrorCode.INVALID_TXN_STATE


def test_a_marker_counts_too_that_came_after_the_log_was_cut_off():
    """The leader lost its office, followed, was cut off, and leads again: its log has other producers by then."""
    asking = Asking(log=[b"lost"])
    asking.log.truncate_to(0)
    end(asking.log, 1, commit=False)
    assert asking.refusal() == ErrorCode.INVALID_TXN_STATE


def test_the_marker_of_the_transaction_before_does_not_matter_where_ends_raise_the_epoch():
    """It is what the coordinator waits for before it adds the partition to the next one."""
    asking = Asking(verify_only=False)
    end(asking.log, 1, 0, commit=True, version=2)
    asking.asked.check(HERE, abortable=True)


@pytest.mark.parametrize(
    ("said", "abortable", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, True, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, False, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NETWORK_EXCEPTION, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_producers_are_told_what_they_understand(said, abortable, told):
    assert Asking(code=said).refusal(abortable=abortable) == told


def test_positions_that_wait_behind_another_question_do_not_wait_for_ever():
    """Seed 10598: past its time the request waited again until the same moment, and the broker woke without end."""
    broker = SimpleNamespace(
        image=SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})}),
        groups=SimpleNamespace(partition_for=lambda *_: 0),
        replicas=SimpleNamespace(get=lambda *_: object()),
        verifying=SimpleNamespace(is_busy=lambda _: True),
    )
    context = SimpleNamespace(broker=broker, now=NOW, version=5)
    position = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(
        transactional_id="id", group_id="g", topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[position])]
    )
    waiting = txn_offset_commit.handle(request, context)
    assert isinstance(waiting, Deferred)
    context.now = NOW._replace(mono=waiting.deadline)
    answer = waiting.resume(context, *waiting.arguments)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
