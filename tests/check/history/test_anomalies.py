"""Every anomaly is found in a history made to hold it, with its evidence, and not in its clean twin."""

import pytest

from tests.check.history.made import Made
from tidelog.check.history.operation import COMMIT, COMMITTED, FAIL, INFO, INVOKE, OK, SEND, Commit, Poll, Send
from tidelog.check.history.verdict import KINDS


def plain():
    """Three values of key 0 at offsets 0 to 2, and who writes them."""
    return Made().sent(0, 0, 10, 0).sent(0, 0, 11, 1).sent(0, 0, 12, 2)


ALL = {0: [(0, 10), (1, 11), (2, 12)]}


def a_clean_history():
    return plain().assigned(1, 0).polled(1, ALL).scanned(2, ALL)


def lost_write():
    holey = {0: [(0, 10), (2, 12)]}
    return Made().sent(0, 0, 10, 0).sent(3, 0, 11, 1).sent(0, 0, 12, 2).scanned(2, holey)


def unseen():
    return plain().scanned(2, {0: [(0, 10), (1, 11)]})


def duplicate():
    return plain().scanned(2, {0: [*ALL[0], (3, 11)]})


def inconsistent_offsets():
    return plain().assigned(1, 0).polled(1, ALL).unanswered(4, 0, 99).polled(3, {0: [(1, 99)]}).scanned(2, ALL)


def unwritten():
    return plain().scanned(2, {0: [*ALL[0], (3, "garbage")]})


def aborted_read():
    return plain().failed(3, 0, 13).scanned(2, {0: [*ALL[0], (3, 13)]})


def aborted_transaction_read():
    made = Made().txn(0, Send(0, 0, 10), Send(1, 0, 20), type_=FAIL)
    return made.scanned(2, {1: [(0, 20)]})


def precommitted_read():
    return Made().txn(0, Send(0, 0, 10), Poll({0: [(0, 10)]})).scanned(2, {0: [(0, 10)]})


def int_poll_skip():
    return plain().assigned(1, 0).polled(1, {0: [(0, 10), (2, 12)]}).scanned(2, ALL)


def int_nonmonotonic_poll():
    return plain().assigned(1, 0).polled(1, {0: [(1, 11), (0, 10)]}).scanned(2, ALL)


def poll_skip():
    return plain().assigned(1, 0).polled(1, {0: [(0, 10)]}).polled(1, {0: [(2, 12)]}).scanned(2, ALL)


def nonmonotonic_poll():
    return plain().assigned(1, 0).polled(1, {0: [(0, 10), (1, 11)]}).polled(1, {0: [(1, 11)]}).scanned(2, ALL)


def poll_skip_under_subscribe():
    return plain().subscribed(1, 0).polled(1, {0: [(0, 10)]}).polled(1, {0: [(2, 12)]}).scanned(2, ALL)


def nonmonotonic_poll_under_subscribe():
    return plain().subscribed(1, 0).polled(1, {0: [(1, 11)]}).polled(1, {0: [(1, 11)]}).scanned(2, ALL)


def int_nonmonotonic_send():
    made = Made().call(0, SEND, [Send(0, None, 10), Send(0, None, 11)], [Send(0, 1, 10), Send(0, 0, 11)])
    return made.scanned(2, {0: [(0, 11), (1, 10)]})


def nonmonotonic_send():
    made = (
        Made().call(0, SEND, [Send(0, None, 10)], [Send(0, 1, 10)]).call(0, SEND, [Send(0, None, 11)], [Send(0, 0, 11)])
    )
    return made.scanned(2, {0: [(0, 11), (1, 10)]})


def int_send_skip():
    made = Made().add(0, INVOKE, SEND, [Send(0, None, 10), Send(0, None, 12)]).sent(1, 0, 11, 1)
    return made.add(0, OK, SEND, [Send(0, 0, 10), Send(0, 2, 12)]).scanned(2, ALL)


def ack_below_known():
    return Made().sent(0, 0, 11, 1).sent(3, 0, 10, 0).scanned(2, {0: [(0, 10), (1, 11)]})


def ack_mismatch():
    return plain().unanswered(3, 0, 13).scanned(2, {0: [(0, 10), (1, 13), (2, 12)]})


def vanished():
    return plain().unanswered(3, 0, 13).assigned(1, 0).polled(1, {0: [*ALL[0], (3, 13)]}).scanned(2, ALL)


def unfinished():
    return plain().assigned(1, 0).polled(1, ALL)


def commit_beyond_poll():
    return a_clean_history().call(1, COMMIT, {0: 4}, {0: 4})


def lost_commit():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).call(1, COMMIT, {0: 3}, {0: 3})
    return made.call(3, COMMITTED, None, {0: 2})


def lost_commit_of_a_transaction():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).txn(3, Poll({}), Commit({0: 3}))
    return made.call(4, COMMITTED, None, {0: 2})


def commit_of_an_aborted_transaction():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).txn(3, Poll({}), Commit({0: 3}), type_=FAIL)
    return made.call(4, COMMITTED, None, {0: 3})


def lost_only_commit():
    return a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).call(3, COMMITTED, None, {})


def interleaved_writes():
    """G0: two transactions, each of which writes first on one key."""
    made = Made().add(0, INVOKE, "txn", [Send(0, None, 10), Send(1, None, 21)])
    made.add(1, INVOKE, "txn", [Send(0, None, 11), Send(1, None, 20)])
    made.add(0, OK, "txn", [Send(0, 0, 10), Send(1, 1, 21)]).add(1, OK, "txn", [Send(0, 1, 11), Send(1, 0, 20)])
    return made.scanned(2, {0: [(0, 10), (1, 11)], 1: [(0, 20), (1, 21)]})


def interleaved_writes_and_reads():
    """G1c: the first writes before the second, and reads what the second wrote."""
    made = Made().add(0, INVOKE, "txn", [Send(0, None, 10), Poll({})])
    made.add(1, INVOKE, "txn", [Send(0, None, 11), Send(1, None, 20)])
    made.add(0, OK, "txn", [Send(0, 0, 10), Poll({1: [(0, 20)]})]).add(1, OK, "txn", [Send(0, 1, 11), Send(1, 0, 20)])
    return made.scanned(2, {0: [(0, 10), (1, 11)], 1: [(0, 20)]})


def calls_that_read_each_other():
    made = Made().add(0, INVOKE, "txn", [Send(0, None, 10), Poll({})])
    made.add(1, INVOKE, "txn", [Send(1, None, 20), Poll({})])
    made.add(0, OK, "txn", [Send(0, 0, 10), Poll({1: [(0, 20)]})])
    made.add(1, OK, "txn", [Send(1, 0, 20), Poll({0: [(0, 10)]})])
    return made.scanned(2, {0: [(0, 10)], 1: [(0, 20)]})


def a_value_read_before_its_own_process_sent_it():
    return Made().polled(0, {0: [(0, 10)]}).sent(0, 0, 10, 0).scanned(2, {0: [(0, 10)]})


def a_value_read_before_anybody_sent_it():
    return Made().polled(1, {0: [(0, 10)]}).sent(0, 0, 10, 0).scanned(2, {0: [(0, 10)]})


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (a_clean_history, {}),
        (lost_write, {"lost-write": 1, "int-poll-skip": 1}),
        (unseen, {"unseen": 1}),
        (duplicate, {"duplicate": 1, "G0": 1}),
        (inconsistent_offsets, {"inconsistent-offsets": 1, "vanished": 1}),
        (unwritten, {"unwritten": 1}),
        (aborted_read, {"aborted-read": 1}),
        (aborted_transaction_read, {"aborted-read": 1}),
        (precommitted_read, {"precommitted-read": 1}),
        (int_poll_skip, {"int-poll-skip": 1}),
        (int_nonmonotonic_poll, {"int-nonmonotonic-poll": 1}),
        (poll_skip, {"poll-skip": 1}),
        (nonmonotonic_poll, {"nonmonotonic-poll": 1}),
        (poll_skip_under_subscribe, {"poll-skip-under-subscribe": 1}),
        (nonmonotonic_poll_under_subscribe, {"nonmonotonic-poll-under-subscribe": 1}),
        (int_nonmonotonic_send, {"int-nonmonotonic-send": 1}),
        (nonmonotonic_send, {"nonmonotonic-send": 1, "ack-below-known": 1, "G0-process": 1}),
        (int_send_skip, {"int-send-skip": 1, "G0": 1}),
        (ack_below_known, {"ack-below-known": 1, "G0-realtime": 1}),
        (ack_mismatch, {"inconsistent-offsets": 1, "ack-mismatch": 1, "lost-write": 1}),
        (vanished, {"vanished": 1}),
        (unfinished, {"unfinished": 1}),
        (commit_beyond_poll, {"commit-beyond-poll": 1}),
        (lost_commit, {"lost-commit": 1}),
        (lost_commit_of_a_transaction, {"lost-commit": 1}),
        (commit_of_an_aborted_transaction, {"lost-commit": 1}),
        (lost_only_commit, {"lost-commit": 1}),
        (interleaved_writes, {"G0": 1}),
        (interleaved_writes_and_reads, {"G1c": 1}),
        (calls_that_read_each_other, {"wr-cycle": 1}),
        (a_value_read_before_its_own_process_sent_it, {"wr-cycle-process": 1}),
        (a_value_read_before_anybody_sent_it, {"wr-cycle-realtime": 1}),
    ],
)
def test_an_anomaly_is_found(made, expected):
    assert made().kinds() == expected


# Clean twins: what looks like an anomaly and is none.


def a_hole_that_a_marker_left():
    return plain().sent(0, 0, 13, 4).scanned(2, {0: [*ALL[0], (4, 13)]})


def an_unanswered_send_that_is_nowhere():
    return plain().unanswered(3, 0, 13).scanned(2, ALL)


def an_unanswered_send_that_was_appended():
    return plain().unanswered(3, 0, 13).scanned(2, {0: [*ALL[0], (3, 13)]})


def an_unanswered_transaction_that_committed():
    made = Made().txn(0, Send(0, None, 10), Send(1, None, 20), type_=INFO)
    return made.scanned(2, {0: [(0, 10)], 1: [(0, 20)]})


def a_failed_send_that_is_nowhere():
    return plain().failed(3, 0, 13).scanned(2, ALL)


def an_aborted_transaction_without_a_trace():
    return plain().txn(3, Send(0, 3, 13), type_=FAIL).sent(0, 0, 14, 5).scanned(2, {0: [*ALL[0], (5, 14)]})


def an_acknowledgement_without_its_offset():
    return plain().sent(3, 0, 13, None).scanned(2, {0: [*ALL[0], (3, 13)]})


def a_call_of_which_one_send_was_acknowledged():
    made = plain().call(3, SEND, [Send(0, None, 13), Send(1, None, 20)], [Send(0, 3, 13), Send(1, None, 20)], INFO)
    return made.scanned(2, {0: [*ALL[0], (3, 13)]})


def a_poll_that_goes_on_elsewhere_after_a_rebalance():
    made = plain().subscribed(1, 0).polled(1, {0: [(0, 10)]})
    return made.polled(1, {0: [(2, 12)]}, rebalanced=[0]).scanned(2, ALL)


def a_poll_within_which_the_partition_was_given_back():
    return plain().subscribed(1, 0).polled(1, {0: [(2, 12), (0, 10)]}, rebalanced=[0]).scanned(2, ALL)


def a_partition_assigned_anew():
    made = plain().assigned(1, 0).polled(1, {0: [(0, 10)]}).assigned(1, 1).assigned(1, 0)
    return made.polled(1, {0: [(2, 12)]}).scanned(2, ALL)


def a_consumer_that_crashed():
    return plain().assigned(1, 0).polled(1, ALL).crashed(1).assigned(1, 0).polled(1, ALL).scanned(2, ALL)


def a_poll_of_two_partitions():
    made = (
        plain().sent(0, 1, 20, 0).assigned(1, 0, 1).polled(1, {0: ALL[0][:1], 1: [(0, 20)]}).polled(1, {0: ALL[0][1:]})
    )
    return made.scanned(2, {**ALL, 1: [(0, 20)]})


def sends_that_overlap():
    made = Made().add(0, INVOKE, SEND, [Send(0, None, 11)]).add(3, INVOKE, SEND, [Send(0, None, 10)])
    made.add(0, OK, SEND, [Send(0, 1, 11)]).add(3, OK, SEND, [Send(0, 0, 10)])
    return made.scanned(2, {0: [(0, 10), (1, 11)]})


def a_commit_without_an_answer():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).call(1, COMMIT, {0: 3}, {0: 3}, INFO)
    return made.call(3, COMMITTED, None, {0: 2})


def a_commit_without_an_answer_that_counted():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).call(1, COMMIT, {0: 3}, {0: 3}, INFO)
    return made.call(3, COMMITTED, None, {0: 3})


def a_commit_within_a_transaction():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).txn(3, Poll({}), Commit({0: 3}))
    return made.call(4, COMMITTED, None, {0: 3})


def a_transaction_without_an_answer_whose_commit_counted():
    made = a_clean_history().call(1, COMMIT, {0: 2}, {0: 2}).txn(3, Poll({}), Commit({0: 3}), type_=INFO)
    return made.call(4, COMMITTED, None, {0: 3})


def a_read_that_was_not_answered_in_time():
    return plain().assigned(1, 0).polled(1, {0: ALL[0][:2]}, INFO).scanned(2, ALL)


@pytest.mark.parametrize(
    "made",
    [
        a_hole_that_a_marker_left,
        an_unanswered_send_that_is_nowhere,
        an_unanswered_send_that_was_appended,
        an_unanswered_transaction_that_committed,
        a_failed_send_that_is_nowhere,
        an_aborted_transaction_without_a_trace,
        an_acknowledgement_without_its_offset,
        a_call_of_which_one_send_was_acknowledged,
        a_poll_that_goes_on_elsewhere_after_a_rebalance,
        a_poll_within_which_the_partition_was_given_back,
        a_partition_assigned_anew,
        a_consumer_that_crashed,
        a_poll_of_two_partitions,
        sends_that_overlap,
        a_commit_without_an_answer,
        a_commit_without_an_answer_that_counted,
        a_commit_within_a_transaction,
        a_transaction_without_an_answer_whose_commit_counted,
        a_read_that_was_not_answered_in_time,
    ],
)
def test_what_only_looks_like_an_anomaly_is_none(made):
    assert made().kinds() == {}


def test_what_an_unanswered_transaction_wrote_and_lost_is_reported():
    """One of its values was read, so it committed; the other one is missing, though a later one was read."""
    made = Made().txn(0, Send(0, 0, 10), Send(1, 0, 20), type_=INFO).sent(3, 1, 21, 1)
    assert made.scanned(2, {0: [(0, 10)], 1: [(1, 21)]}).kinds() == {"lost-write": 1}


def test_an_acknowledged_send_of_a_call_without_an_answer_may_not_be_lost():
    made = plain().call(3, SEND, [Send(0, None, 13), Send(1, None, 20)], [Send(0, 3, 13), Send(1, None, 20)], INFO)
    assert made.scanned(2, ALL).kinds() == {"unseen": 1}


def test_the_evidence_names_place_value_offset_and_lines():
    (found,) = lost_write().verdict().anomalies["lost-write"]
    assert (found.key, found.offset, found.values, found.lines) == (0, 1, (11,), (5, 11))
    verdict = lost_write().verdict()
    assert verdict.anomalies["lost-write"][0].text(verdict.header) == (
        "t-0: value 11 at offset 1 was never read, though 12 at 2 was (lines 5, 11)"
    )


def test_only_what_nothing_allows_makes_a_verdict_bad():
    assert poll_skip_under_subscribe().verdict().is_good
    assert interleaved_writes_and_reads().verdict().is_good
    assert not calls_that_read_each_other().verdict().is_good
    told = lost_write().verdict().as_json()
    assert told["valid"] is False
    assert told["anomalies"]["lost-write"]["evidence"][0]["lines"] == (5, 11)


def test_every_kind_has_a_history_that_shows_it():
    parameters = test_an_anomaly_is_found.pytestmark[0].args[1]
    shown = {kind for _, expected in parameters for kind in expected}
    assert set(KINDS) - shown == {"G1c-process", "G1c-realtime"}  # the same circles as G1c and G0, with more edges


def test_the_figures_count_calls_and_values():
    told = plain().failed(3, 0, 13).unanswered(3, 0, 14).scanned(2, ALL).verdict().figures
    assert (told["values_certain"], told["values_failed"], told["values_indeterminate"]) == (3, 1, 1)
    assert (told["values_read"], told["scans"], told["calls"]["send ok"]) == (3, 1, 3)


def test_the_lag_is_how_long_the_next_record_had_been_acknowledged():
    made = plain().assigned(1, 0).polled(1, {0: ALL[0][:1]}).polled(1, {0: ALL[0][1:]}).scanned(2, ALL)
    assert made.verdict().figures["lag_ms_max"] == 5.0  # acknowledged at 3 ms, the first poll began at 8 ms
