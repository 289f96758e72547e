"""What a transaction's coordinator decides, whom it refuses, and what outlives it."""

from dataclasses import replace

import pytest

from tests.coordinator.transaction.transaction_harness import A, B, TransactionHarness
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
    harness = TransactionHarness()
    harness.answering = False
    assert harness.init() == InitProducerIdResult(NONE, 100, 0)
    assert harness.add(100, 0, A, B).code == NONE
    assert harness.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert {ask.target for ask in harness.markers} == {1, 2}
    for ask in harness.markers:
        (marker,) = ask.request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (100, 1, True)
        assert (marker.coordinator_epoch, marker.transaction_version) == (1, 2)
    harness.run(harness.answer())
    assert harness.state().transaction_state == "PrepareCommit"
    harness.run(harness.answer())
    assert harness.state().transaction_state == "CompleteCommit"
    assert harness.states == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


def test_the_older_protocol_keeps_the_epoch():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0, version=0)
    assert harness.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert harness.finish(100, 0, version=0).code == NONE, "again"
    assert harness.finish(100, 0, version=0, commit=False).code == ErrorCode.INVALID_TXN_STATE
    harness.add(100, 0, version=0)
    assert harness.finish(100, 0, version=0, commit=False) == EndTransactionResult(NONE, 100, 0)


def test_an_end_that_comes_again_is_the_same_and_never_ends_the_next_transaction():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0)
    assert harness.finish(100, 0) == harness.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert harness.finish(100, 0, commit=False).code == ErrorCode.INVALID_TXN_STATE
    harness.add(100, 1)
    assert harness.finish(100, 0).code == FENCED
    assert harness.state().transaction_state == "Ongoing"


@pytest.mark.parametrize(("commit", "code"), [(True, ErrorCode.INVALID_TXN_STATE), (False, NONE)])
def test_nothing_can_be_aborted_but_not_committed(commit, code):
    harness = TransactionHarness()
    harness.init()
    ended = harness.finish(100, 0, commit=commit)
    assert ended == (EndTransactionResult(code) if code else EndTransactionResult(NONE, 100, 1))
    assert harness.finish(100, 0, commit=True, version=0).code == (FENCED if not code else ErrorCode.INVALID_TXN_STATE)


def test_markers_wait_until_the_decision_is_replicated():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    harness.holding = True
    assert harness.finish(100, 0) is None
    assert not harness.markers
    harness.commit()
    assert len(harness.markers) == 1
    assert EndTransactionResult(NONE, 100, 1) in harness.answers.values()


def test_a_decision_that_timed_out_is_carried_out_all_the_same():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0)
    harness.holding = True
    assert harness.finish(100, 0) is None
    harness.elapse(30_001)
    assert EndTransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE) in harness.answers.values()
    harness.commit()
    assert harness.state().transaction_state == "CompleteCommit"


def test_a_decision_that_could_not_be_written_is_none():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0)
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    assert harness.finish(100, 0) == EndTransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    harness.refusing = None
    assert harness.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)
    assert harness.state().transaction_state == "CompleteAbort"


@pytest.mark.parametrize("lost", [True, False])
def test_markers_are_asked_again_until_every_leader_has_them(lost):
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0, A)
    harness.finish(100, 0)
    harness.run(harness.answer(code=ErrorCode.NOT_LEADER_OR_FOLLOWER, lost=lost))
    assert not harness.markers
    harness.leaders[A] = 2
    harness.elapse(50)
    assert [ask.target for ask in harness.markers] == [2]
    harness.answer_all()
    assert harness.state().transaction_state == "CompleteCommit"


def test_a_partition_without_a_leader_is_waited_for_and_one_that_is_gone_is_not():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0, A, B)
    del harness.leaders[B]
    harness.leaders[A] = -1
    harness.finish(100, 0)
    assert harness.state().transaction_state == "PrepareCommit"
    harness.leaders[A] = 1
    harness.elapse(50)
    assert harness.state().transaction_state == "CompleteCommit"


def test_a_coordinator_that_was_overtaken_says_nothing_more():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    harness.finish(100, 0)
    harness.answer_all(code=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    harness.elapse(500)
    assert not harness.markers
    assert harness.state().transaction_state == "PrepareCommit"


def test_the_end_is_written_again_where_that_failed():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    harness.finish(100, 0)
    harness.refusing = ErrorCode.NOT_ENOUGH_REPLICAS
    harness.answer_all()
    harness.refusing = None
    harness.elapse(50)
    assert harness.state().transaction_state == "CompleteCommit"


def test_a_new_producer_aborts_the_open_transaction_of_the_one_before_and_fences_it():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    token = harness.ask_init()
    assert token not in harness.answers, "it waits for the abort"
    (marker,) = harness.markers[0].request.markers
    assert (marker.producer_epoch, marker.transaction_result) == (1, False)
    harness.answer_all()
    assert harness.answers[token] == InitProducerIdResult(NONE, 100, 2)
    assert harness.add(100, 0).code == FENCED
    assert harness.finish(100, 0).code == FENCED


def test_who_waits_too_long_is_told_to_come_again():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    token = harness.ask_init()
    harness.elapse(1_000)
    assert harness.answers[token] == InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    harness.answer_all()
    assert harness.init() == InitProducerIdResult(NONE, 100, 2)


def test_the_next_transaction_begins_when_the_one_before_is_complete():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0, A)
    harness.finish(100, 0)
    token = harness.ask_add(100, 1, B)
    assert token not in harness.answers
    harness.answer_all()
    assert harness.answers[token].code == NONE
    found = harness.state()
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
    harness = TransactionHarness()
    harness.init()
    assert harness.init(producer_id=100, epoch=0) == InitProducerIdResult(NONE, 100, 1)
    assert harness.init(producer_id=producer_id, epoch=epoch) == expected


def test_an_id_whose_epochs_are_used_up_gets_another_producer_id():
    harness = at_epoch(LAST_CLIENT_EPOCH)
    assert harness.init() == InitProducerIdResult(NONE, 1000, 0)


def test_the_last_epoch_is_spent_on_a_marker_and_an_end_that_comes_again_gets_the_next_id():
    harness = at_epoch(LAST_CLIENT_EPOCH)
    harness.answering = False
    harness.add(100, LAST_CLIENT_EPOCH)
    assert harness.finish(100, LAST_CLIENT_EPOCH) == EndTransactionResult(NONE, 1000, 0)
    (marker,) = harness.markers[0].request.markers
    assert (marker.producer_id, marker.producer_epoch) == (100, LAST_EPOCH)
    token = harness.ask_add(1000, 0, A)
    harness.answer_all()
    assert harness.answers[token].code == NONE
    harness.finish(1000, 0)
    harness.answer_all()
    assert harness.finish(100, LAST_CLIENT_EPOCH).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_end_with_the_last_epoch_is_answered_again_once_its_markers_are_written():
    harness = at_epoch(LAST_CLIENT_EPOCH)
    harness.add(100, LAST_CLIENT_EPOCH)
    ended = EndTransactionResult(NONE, 1000, 0)
    assert harness.finish(100, LAST_CLIENT_EPOCH) == ended
    assert harness.finish(100, LAST_CLIENT_EPOCH) == ended
    assert harness.finish(100, LAST_CLIENT_EPOCH, commit=False).code == ErrorCode.INVALID_TXN_STATE


def at_epoch(epoch):
    """A coordinator that finds the id with this epoch in its log."""
    harness = TransactionHarness()
    harness.init()
    machine = harness.coordinator.machines()[0]
    known = machine.find("t")
    key, value = machine.encode(Change("t", replace(known, epoch=epoch)))
    batch = build([Record(0, 0, key, value)], base_offset=harness.end)
    return TransactionHarness([*harness.batches, batch], now=harness.now)


def test_verification_reports_which_partitions_are_in_the_transaction():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0, A)
    assert harness.add(100, 0, A, B, verify_only=True).unknown == {B}
    assert harness.add(100, 1, A, verify_only=True).code == FENCED
    assert harness.add(7, 0, A, verify_only=True).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.add(100, 0, A, name="other", verify_only=True).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_hears_so():
    harness = TransactionHarness()
    harness.init(timeout_ms=5_000)
    harness.add(100, 0)
    harness.elapse(10_000)
    assert harness.state().transaction_state == "CompleteAbort"
    assert harness.add(100, 0).code == FENCED
    assert harness.finish(100, 0).code == ErrorCode.INVALID_TXN_STATE
    assert harness.finish(100, 0, version=0).code == FENCED
    assert harness.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)


def test_a_transaction_that_began_by_a_clock_that_was_wrong_is_aborted_too():
    """Simulated seed 5000471: it would have been open for years after its coordinator had died."""
    harness = TransactionHarness()
    year = 365 * 86_400_000
    harness.now = harness.now._replace(wall=harness.now.wall + year)
    harness.init(timeout_ms=60_000)
    harness.add(100, 0, A)
    harness.now = harness.now._replace(wall=harness.now.wall - year)
    after = harness.successor()
    after.elapse(10_000)
    after.answer_all()
    assert after.state().transaction_state == "CompleteAbort"


def test_an_id_that_nobody_used_for_long_is_forgotten():
    harness = TransactionHarness(options={"transactional.id.expiration.ms": "1200000"})
    harness.init("idle")
    harness.init("open", timeout_ms=900_000)
    harness.add(101, 0, name="open")
    harness.elapse(3_600_000 - 20_000)
    harness.elapse(20_000)
    assert harness.list() == ["open"]
    assert harness.state("idle").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert [value for key, value in harness.values() if key.endswith(b"idle")][-1] is None
    assert harness.successor().list() == ["open"]


def test_a_successor_carries_a_decision_out():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0, A, B)
    harness.finish(100, 0)
    harness.run(harness.answer())
    successor = harness.successor()
    assert successor.state().transaction_state == "CompleteCommit"
    assert successor.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    assert successor.init() == InitProducerIdResult(NONE, 100, 2)


def test_a_successor_knows_nothing_of_a_decision_that_was_not_replicated():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0)
    harness.holding = True
    harness.finish(100, 0)
    successor = harness.successor()
    assert successor.state().transaction_state == "Ongoing"
    assert successor.finish(100, 0, commit=False) == EndTransactionResult(NONE, 100, 1)


def test_a_successor_waits_for_its_own_high_watermark_before_it_sends_markers():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    harness.finish(100, 0)
    successor = harness.successor(high_watermark=1)
    assert not successor.markers
    successor.commit()
    assert successor.state().transaction_state == "CompleteCommit"


def test_an_older_decision_that_is_replicated_says_nothing_of_the_present_one():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0, A)
    harness.finish(100, 0)
    harness.add(100, 1, B)
    replicated, harness.holding = harness.end, True
    harness.finish(100, 1)
    successor = TransactionHarness(harness.batches, now=harness.now, epoch=2, high_watermark=replicated)
    assert successor.end == harness.end, "no marker was asked for, and none answered"
    successor.commit()
    assert successor.state().transaction_state == "CompleteCommit"


def test_whoever_waits_hears_when_another_broker_coordinates():
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    token = harness.ask_init()
    harness.run(harness.coordinator.resigned(0, harness.now))
    assert harness.answers[token] == InitProducerIdResult(ErrorCode.NOT_COORDINATOR)
    assert harness.init() == InitProducerIdResult(ErrorCode.NOT_COORDINATOR)
    harness.answer_all()


def test_an_empty_id_is_described_as_invalid():
    assert TransactionHarness().state("").error_code == ErrorCode.INVALID_REQUEST


def test_lists_are_filtered():
    harness = TransactionHarness()
    harness.init("one")
    harness.init("two")
    harness.add(101, 0, name="two")
    harness.elapse(100)
    assert harness.list() == ["one", "two"]
    assert harness.list(states=frozenset({TransactionState.ONGOING})) == ["two"]
    assert harness.list(has_unknown_state=True) == []
    assert harness.list(producer_ids=frozenset({100})) == ["one"]
    assert harness.list(matches=lambda name: name.endswith("o")) == ["two"]
    assert harness.list(states=frozenset({TransactionState.ONGOING}), duration_ms=100) == []
    assert harness.list(states=frozenset({TransactionState.ONGOING}), duration_ms=99) == ["two"]


def test_an_empty_transaction_ended_at_once_waits_for_the_markers_of_the_one_before():
    """The producer has the next epoch by then, and would be told for good that it is fenced."""
    harness = TransactionHarness()
    harness.answering = False
    harness.init()
    harness.add(100, 0)
    assert harness.finish(100, 0) == EndTransactionResult(NONE, 100, 1)
    early = EndTransactionResult(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert harness.finish(100, 1, commit=False) == early
    assert harness.finish(100, 0) == harness.finish(100, 0, commit=False) == early, "whatever its epoch"
    assert harness.finish(99, 1, commit=False).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    harness.answer_all()
    assert harness.finish(100, 1, commit=False) == EndTransactionResult(NONE, 100, 2)
    assert harness.finish(100, 0).code == FENCED


def test_the_same_where_the_epochs_are_used_up():
    harness = at_epoch(LAST_CLIENT_EPOCH)
    harness.answering = False
    harness.add(100, LAST_CLIENT_EPOCH)
    ended = harness.finish(100, LAST_CLIENT_EPOCH)
    assert ended == EndTransactionResult(NONE, 1000, 0)
    assert harness.finish(1000, 0, commit=False).code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.finish(1000, 1, commit=False).code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    token = harness.ask(InitProducerId("t", 60_000, 1000, 0))
    assert token not in harness.answers
    harness.answer_all()
    assert harness.answers[token] == InitProducerIdResult(NONE, 1000, 1)
    assert harness.finish(1000, 1, commit=False) == EndTransactionResult(NONE, 1000, 2)


@pytest.mark.parametrize("commit", [True, False])
def test_a_coordinator_that_was_replaced_ends_nothing_of_older_clients(commit):
    """It knows a transaction that has ended; the next one began, and may end otherwise, at its successor."""
    zombie = TransactionHarness()
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
    zombie = TransactionHarness()
    zombie.init()
    zombie.add(100, 0, version=0)
    successor = zombie.successor()
    zombie.holding = True
    assert successor.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert zombie.add(100, 0, version=0) is None


def test_an_end_that_older_clients_ask_for_again_is_answered_by_a_successor():
    harness = TransactionHarness()
    harness.init()
    harness.add(100, 0, version=0)
    harness.finish(100, 0, version=0)
    successor = harness.successor()
    assert successor.finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)
    assert successor.successor().finish(100, 0, version=0) == EndTransactionResult(NONE, 100, 0)


def test_who_was_fenced_by_an_older_client_does_not_take_the_end_of_that_one_for_its_own():
    harness = TransactionHarness()
    harness.init()
    assert harness.init() == InitProducerIdResult(NONE, 100, 1), "another one takes the id over"
    harness.add(100, 1, version=0)
    assert harness.finish(100, 1, version=0, commit=False) == EndTransactionResult(NONE, 100, 1)
    assert harness.finish(100, 0, commit=False).code == FENCED


MAPPING, STATE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda harness: harness.finish(100, 3), FENCED),
        (lambda harness: harness.finish(100, 3, version=0), FENCED),
        (lambda harness: harness.add(100, 3), FENCED),
        (lambda harness: harness.add(100, 3, verify_only=True, version=1), FENCED),
        (lambda harness: harness.init(producer_id=100, epoch=3), FENCED),
        (lambda harness: harness.init(producer_id=777, epoch=0), FENCED),
        (lambda harness: harness.finish(777, 0), MAPPING),
        (lambda harness: harness.add(777, 0), MAPPING),
        (lambda harness: harness.add(777, 0, verify_only=True, version=1), MAPPING),
        (lambda harness: harness.finish(100, 0, name="new"), MAPPING),
        (lambda harness: harness.add(100, 0, name="new"), MAPPING),
        (lambda harness: harness.add(100, 0, name="new", verify_only=True, version=1), MAPPING),
        (lambda harness: harness.add(100, 0, B, verify_only=True, version=1), NONE),
    ],
)
@pytest.mark.parametrize("is_ongoing", [False, True])
def test_who_cannot_go_on_is_refused_only_by_a_coordinator_that_leads(ask, code, is_ongoing):
    """A coordinator that was replaced without knowing it: its successor gave the producer its ID or epoch, or added the
    partition. It commits nothing, and would refuse for good what its successor takes."""
    harness = TransactionHarness()
    harness.init()
    if is_ongoing:
        harness.add(100, 0)
    harness.holding = True
    assert ask(harness) is None
    harness.commit()
    assert [answer.code for answer in harness.answers.values()] == [code]


def test_nor_does_an_older_client_hear_from_another_that_there_is_nothing_to_end():
    harness = TransactionHarness()
    harness.init()
    harness.holding = True
    assert harness.finish(100, 0, version=0) is None
    harness.commit()
    assert [answer.code for answer in harness.answers.values()] == [STATE]


def test_all_that_are_refused_at_the_same_time_share_a_record():
    """The record is one that was appended after they came: one that was appended before may be committed by a fetch from
    before the successor. After a failure nobody waits a second time."""
    harness = TransactionHarness()
    harness.init()
    harness.holding, before = True, harness.end
    first = harness.ask(EndTransaction("a", 1, 0, commit=True))
    others = [harness.ask(EndTransaction(f"b{index}", 1, 0, commit=True)) for index in range(50)]
    assert harness.end == before + 1
    harness.high_watermark = harness.end
    harness.run(harness.coordinator.committed(0, harness.end, harness.now))
    assert harness.end == before + 2
    assert list(harness.answers) == [first]
    late = harness.ask(EndTransaction("c", 1, 0, commit=True))
    harness.elapse(30_001)
    codes = {harness.answers[token].code for token in (*others, late)}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert harness.end == before + 2
    last = [harness.ask(EndTransaction("d", 1, 0, commit=True)) for _ in range(2)]
    harness.run(harness.coordinator.resigned(0, harness.now))
    assert {harness.answers[token].code for token in last} == {ErrorCode.NOT_COORDINATOR}
    assert harness.list() == []


def test_a_refusal_keeps_no_id_from_expiring_and_adds_none():
    harness = TransactionHarness(options={"transactional.id.expiration.ms": "1200000"})
    harness.init("idle")
    for _ in range(4):
        harness.elapse(900_000)
        harness.finish(100, 7, name="idle")
        harness.finish(100, 7, name="other")
    assert harness.list() == harness.successor().list() == []
