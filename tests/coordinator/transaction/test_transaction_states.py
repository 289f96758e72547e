"""What a transaction's coordinator decides, whom it refuses, and what outlives it."""

from dataclasses import replace

import pytest

from tests.coordinator.transaction.ledger import A, B, Ledger
from tidelog.coordinator.contract import Change
from tidelog.coordinator.transaction import EndTransaction, EndTransactionResult, InitProducerId, InitProducerIdResult
from tidelog.coordinator.transaction.transaction import LAST_CLIENT_EPOCH, LAST_EPOCH, PREVIOUS_STATES, TransactionState
from tidelog.errors import ErrorCode
from tidelog.wire.records import Record, build

NONE = ErrorCode.NONE
FENCED = ErrorCode.PRODUCER_FENCED


def test_every_state_can_be_left_and_reached():
    reached = {state for state, before in PREVIOUS_STATES.items() if before}
    left = {state for before in PREVIOUS_STATES.values() for state in before}
    assert reached == set(TransactionState)
    assert left == set(TransactionState) - {TransactionState.DEAD}


def test_a_commit_raises_the_epoch_and_marks_every_partition_with_it():
    ledger = Ledger()
    ledger.answering = False
    assert ledger.init() == InitProducerIdResult(NONE, 100, 0)
    assert ledger.add(100, 0, A, B).code == NONE
    assert ledger.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert {ask.target for ask in ledger.markers} == {1, 2}
    for ask in ledger.markers:
        (marker,) = ask.request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (100, 1, True)
        assert (marker.coordinator_epoch, marker.transaction_version) == (1, 2)
    ledger.run(ledger.answer())
    assert ledger.state().transaction_state == "PrepareCommit"
    ledger.run(ledger.answer())
    assert ledger.state().transaction_state == "CompleteCommit"
    assert ledger.states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def test_the_older_protocol_keeps_the_epoch():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0, version=0)
    assert ledger.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert ledger.finish(100, 0, version=0).code == NONE, "again"
    assert ledger.finish(100, 0, version=0, commit=False).code == ErrorCode.INVALID_TXN_STATE
    ledger.add(100, 0, version=0)
    assert ledger.finish(100, 0, version=0, commit=False) == EndTransactionResult(NONE, 100, 0)


def test_an_end_that_comes_again_is_the_same_and_never_ends_the_next_transaction():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0)
    assert ledger.finish(100, 0) == ledger.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert ledger.finish(100, 0, commit=False).code == ErrorCode.INVALID_TXN_STATE
    ledger.add(100, 1)
    assert ledger.finish(100, 0).code == FENCED
    assert ledger.state().transaction_state == "Ongoing"


@pytest.mark.parametrize(("commit", "code"), [(True, ErrorCode.INVALID_TXN_STATE), (False, NONE)])
def test_nothing_can_be_aborted_but_not_committed(commit, code):
    ledger = Ledger()
    ledger.init()
    ended = ledger.finish(100, 0, commit=commit)
    assert ended == (EndTransactionResult(code) if code else EndTransactionResult(NONE, 100, 1))
    assert ledger.finish(100, 0, commit=True, version=0).code == (FENCED if not code else ErrorCode.INVALID_TXN_STATE)


def test_markers_wait_until_the_decision_is_replicated():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    ledger.holding = True
    assert ledger.finish(100, 0) is None
    assert not ledger.markers
    ledger.commit()
    assert len(ledger.markers) == 1
    assert EndTransactionResult(NONE, 100, 1) in ledger.answers.values()


def test_a_decision_that_timed_out_is_carried_out_all_the_same():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0)
    ledger.holding = True
    assert ledger.finish(100, 0) is None
    ledger.elapse(30_001)
    assert EndTransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE) in ledger.answers.values()
    ledger.commit()
    assert ledger.state().transaction_state == "CompleteCommit"


def test_a_decision_that_could_not_be_written_is_none():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0)
    ledger.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert ledger.finish(100, 0) == EndTransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ledger.refusing = None
    assert ledger.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)
    assert ledger.state().transaction_state == "CompleteAbort"


@pytest.mark.parametrize("lost", [True, False])
def test_markers_are_asked_again_until_every_leader_has_them(lost):
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0, A)
    ledger.finish(100, 0)
    ledger.run(ledger.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, lost=lost))
    assert not ledger.markers
    ledger.leaders[A] = 2
    ledger.elapse(50)
    assert [ask.target for ask in ledger.markers] == [2]
    ledger.answer_all()
    assert ledger.state().transaction_state == "CompleteCommit"


def test_a_partition_without_a_leader_is_waited_for_and_one_that_is_gone_is_not():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0, A, B)
    del ledger.leaders[B]
    ledger.leaders[A] = -1
    ledger.finish(100, 0)
    assert ledger.state().transaction_state == "PrepareCommit"
    ledger.leaders[A] = 1
    ledger.elapse(50)
    assert ledger.state().transaction_state == "CompleteCommit"


def test_a_coordinator_that_was_overtaken_says_nothing_more():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    ledger.finish(100, 0)
    ledger.answer_all(code=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    ledger.elapse(500)
    assert not ledger.markers
    assert ledger.state().transaction_state == "PrepareCommit"


def test_the_end_is_written_again_where_that_failed():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    ledger.finish(100, 0)
    ledger.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    ledger.answer_all()
    ledger.refusing = None
    ledger.elapse(50)
    assert ledger.state().transaction_state == "CompleteCommit"


def test_a_new_producer_aborts_the_open_transaction_of_the_one_before_and_fences_it():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    token = ledger.ask_init()
    assert token not in ledger.answers, "it waits for the abort"
    (marker,) = ledger.markers[0].request.markers
    assert (marker.producer_epoch, marker.transaction_result) == (1, False)
    ledger.answer_all()
    assert ledger.answers[token] == InitProducerIdResult(NONE, 100, 2)
    assert ledger.add(100, 0).code == FENCED
    assert ledger.finish(100, 0).code == FENCED


def test_who_waits_too_long_is_told_to_come_again():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    token = ledger.ask_init()
    ledger.elapse(1_000)
    assert ledger.answers[token] == InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    ledger.answer_all()
    assert ledger.init() == InitProducerIdResult(NONE, 100, 2)


def test_the_next_transaction_begins_when_the_one_before_is_complete():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0, A)
    ledger.finish(100, 0)
    token = ledger.ask_add(100, 1, B)
    assert token not in ledger.answers
    ledger.answer_all()
    assert ledger.answers[token].code == NONE
    found = ledger.state()
    assert (found.transaction_state, found.topics[0].topic) == ("Ongoing", "b")


@pytest.mark.parametrize(
    ("producer_id", "epoch", "expected"),
    [
        (100, 1, InitProducerIdResult(NONE, 100, 2)),
        (100, 0, InitProducerIdResult(NONE, 100, 1)),
        (100, 7, InitProducerIdResult(FENCED)),
        (99, 1, InitProducerIdResult(FENCED)),
    ],
)
def test_a_producer_that_goes_on_names_what_it_has(producer_id, epoch, expected):
    """Epoch 0 was the last one: that producer asks again for what it did not hear."""
    ledger = Ledger()
    ledger.init()
    assert ledger.init(producer_id=100, epoch=0) == InitProducerIdResult(NONE, 100, 1)
    assert ledger.init(producer_id=producer_id, epoch=epoch) == expected


def test_an_id_whose_epochs_are_used_up_gets_another_producer_id():
    ledger = at_epoch(LAST_CLIENT_EPOCH)
    assert ledger.init() == InitProducerIdResult(NONE, 1000, 0)


def test_the_last_epoch_is_spent_on_a_marker_and_an_end_that_comes_again_gets_the_next_id():
    ledger = at_epoch(LAST_CLIENT_EPOCH)
    ledger.answering = False
    ledger.add(100, LAST_CLIENT_EPOCH)
    assert ledger.finish(100, LAST_CLIENT_EPOCH) == EndTransactionResult(NONE, 1000, 0)
    (marker,) = ledger.markers[0].request.markers
    assert (marker.producer_id, marker.producer_epoch) == (100, LAST_EPOCH)
    token = ledger.ask_add(1000, 0, A)
    ledger.answer_all()
    assert ledger.answers[token].code == NONE
    ledger.finish(1000, 0)
    ledger.answer_all()
    assert ledger.finish(100, LAST_CLIENT_EPOCH).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def at_epoch(epoch):
    """A coordinator that finds the id with this epoch in its log."""
    ledger = Ledger()
    ledger.init()
    machine = ledger.coordinator.machines()[0]
    known = machine.find("t")
    key, value = machine.encode(Change("t", replace(known, epoch=epoch)))
    batch = build([Record(0, 0, key, value)], base_offset=ledger.end)
    return Ledger([*ledger.batches, batch], now=ledger.now)


def test_verification_tells_which_partitions_are_in_the_transaction():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0, A)
    assert ledger.add(100, 0, A, B, verify_only=True).unknown == {B}
    assert ledger.add(100, 1, A, verify_only=True).code == FENCED
    assert ledger.add(7, 0, A, verify_only=True).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert ledger.add(100, 0, A, name="other", verify_only=True).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_hears_so():
    ledger = Ledger()
    ledger.init(timeout_ms=5_000)
    ledger.add(100, 0)
    ledger.elapse(10_000)
    assert ledger.state().transaction_state == "CompleteAbort"
    assert ledger.add(100, 0).code == FENCED
    assert ledger.finish(100, 0).code == ErrorCode.INVALID_TXN_STATE
    assert ledger.finish(100, 0, version=0).code == FENCED
    assert ledger.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)


def test_a_transaction_that_began_by_a_clock_that_was_wrong_is_aborted_too():
    """Simulated seed 5000471: it would have been open for years after its coordinator had died."""
    ledger = Ledger()
    year = 365 * 86_400_000
    ledger.now = ledger.now._replace(wall=ledger.now.wall + year)
    ledger.init(timeout_ms=60_000)
    ledger.add(100, 0, A)
    ledger.now = ledger.now._replace(wall=ledger.now.wall - year)
    after = ledger.successor()
    after.elapse(10_000)
    after.answer_all()
    assert after.state().transaction_state == "CompleteAbort"


def test_an_id_that_nobody_used_for_long_is_forgotten():
    ledger = Ledger(options={"transactional.id.expiration.ms": "1200000"})
    ledger.init("idle")
    ledger.init("open", timeout_ms=900_000)
    ledger.add(101, 0, name="open")
    ledger.elapse(3_600_000 - 20_000)
    ledger.elapse(20_000)
    assert ledger.list() == ["open"]
    assert ledger.state("idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert [value for key, value in ledger.values() if key.endswith(b"idle")][-1] is None


def test_a_successor_carries_a_decision_out():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0, A, B)
    ledger.finish(100, 0)
    ledger.run(ledger.answer())
    successor = ledger.successor()
    assert successor.state().transaction_state == "CompleteCommit"
    assert successor.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert successor.init() == InitProducerIdResult(NONE, 100, 2)


def test_a_successor_knows_nothing_of_a_decision_that_was_not_replicated():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0)
    ledger.holding = True
    ledger.finish(100, 0)
    successor = ledger.successor()
    assert successor.state().transaction_state == "Ongoing"
    assert successor.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)


def test_a_successor_waits_for_its_own_high_watermark_before_it_sends_markers():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    ledger.finish(100, 0)
    successor = ledger.successor(high_watermark=1)
    assert not successor.markers
    successor.commit()
    assert successor.state().transaction_state == "CompleteCommit"


def test_an_older_decision_that_is_replicated_says_nothing_of_the_present_one():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0, A)
    ledger.finish(100, 0)
    ledger.add(100, 1, B)
    replicated, ledger.holding = ledger.end, True
    ledger.finish(100, 1)
    successor = Ledger(ledger.batches, now=ledger.now, epoch=2, high_watermark=replicated)
    assert successor.end == ledger.end, "no marker was asked for, and none answered"
    successor.commit()
    assert successor.state().transaction_state == "CompleteCommit"


def test_whoever_waits_hears_when_another_broker_coordinates():
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    token = ledger.ask_init()
    ledger.run(ledger.coordinator.resigned(0, ledger.now))
    assert ledger.answers[token] == InitProducerIdResult(ErrorCode.NOT_COORDINATOR)
    assert ledger.init() == InitProducerIdResult(ErrorCode.NOT_COORDINATOR)
    ledger.answer_all()


def test_an_empty_id_is_described_as_invalid():
    assert Ledger().state("").error_code == ErrorCode.INVALID_REQUEST


def test_lists_are_filtered():
    ledger = Ledger()
    ledger.init("one")
    ledger.init("two")
    ledger.add(101, 0, name="two")
    ledger.elapse(100)
    assert ledger.list() == ["one", "two"]
    assert ledger.list(states=frozenset({TransactionState.ONGOING})) == ["two"]
    assert ledger.list(has_unknown_state=True) == []
    assert ledger.list(producer_ids=frozenset({100})) == ["one"]
    assert ledger.list(matches=lambda name: name.endswith("o")) == ["two"]
    assert ledger.list(states=frozenset({TransactionState.ONGOING}), duration_ms=100) == []
    assert ledger.list(states=frozenset({TransactionState.ONGOING}), duration_ms=99) == ["two"]


def test_an_empty_transaction_ended_at_once_waits_for_the_markers_of_the_one_before():
    """The producer has the next epoch by then, and would be told for good that it is fenced."""
    ledger = Ledger()
    ledger.answering = False
    ledger.init()
    ledger.add(100, 0)
    assert ledger.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    early = EndTransactionResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert ledger.finish(100, 1, commit=False) == early
    assert ledger.finish(100, 0) == ledger.finish(100, 0, commit=False) == early, "whatever its epoch"
    assert ledger.finish(99, 1, commit=False).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    ledger.answer_all()
    assert ledger.finish(100, 1, commit=False) == EndTransactionResult(NONE, 100, 2)
    assert ledger.finish(100, 0).code == FENCED


def test_the_same_where_the_epochs_are_used_up():
    ledger = at_epoch(LAST_CLIENT_EPOCH)
    ledger.answering = False
    ledger.add(100, LAST_CLIENT_EPOCH)
    ended = ledger.finish(100, LAST_CLIENT_EPOCH)
    assert ended == EndTransactionResult(NONE, 1000, 0)
    assert ledger.finish(1000, 0, commit=False).code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert ledger.finish(1000, 1, commit=False).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    token = ledger.ask(InitProducerId("t", 60_000, 1000, 0))
    assert token not in ledger.answers
    ledger.answer_all()
    assert ledger.answers[token] == InitProducerIdResult(NONE, 1000, 1)
    assert ledger.finish(1000, 1, commit=False) == EndTransactionResult(NONE, 1000, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_was_replaced_ends_nothing_of_older_clients(commit):
    """It knows a transaction that has ended; the next one began, and may end otherwise, at its successor."""
    zombie = Ledger()
    zombie.init()
    zombie.add(100, 0, version=0)
    assert zombie.finish(100, 0, version=0, commit=commit) == EndTransactionResult(NONE, 100, 0)
    successor = zombie.successor()
    zombie.holding = True
    assert successor.add(100, 0, version=0).code == NONE
    tokens = [zombie.ask(EndTransaction("t", 100, 0, commit, 0)) for _ in range(2)]
    assert not zombie.answers
    zombie.elapse(30_001)
    assert [zombie.answers.pop(token).code for token in tokens] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    token = zombie.ask(EndTransaction("t", 100, 0, commit, 0))
    zombie.run(zombie.coordinator.resigned(0, zombie.now))
    assert zombie.answers[token].code == ErrorCode.NOT_COORDINATOR


def test_nor_does_it_say_that_a_partition_is_in_their_transaction():
    zombie = Ledger()
    zombie.init()
    zombie.add(100, 0, version=0)
    successor = zombie.successor()
    zombie.holding = True
    assert successor.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert zombie.add(100, 0, version=0) is None


def test_an_end_that_older_clients_ask_for_again_is_answered_by_a_successor():
    ledger = Ledger()
    ledger.init()
    ledger.add(100, 0, version=0)
    ledger.finish(100, 0, version=0)
    successor = ledger.successor()
    assert successor.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert successor.successor().finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)


def test_who_was_fenced_by_an_older_client_does_not_take_the_end_of_that_one_for_its_own():
    ledger = Ledger()
    ledger.init()
    assert ledger.init() == InitProducerIdResult(NONE, 100, 1), "another one takes the id over"
    ledger.add(100, 1, version=0)
    assert ledger.finish(100, 1, version=0, commit=False) == EndTransactionResult(NONE, 100, 1)
    assert ledger.finish(100, 0, commit=False).code == FENCED
