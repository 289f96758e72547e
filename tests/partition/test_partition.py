"""One replica and its roles, on a real log over a simulated disk: rules 1, 2, 3, 5, 7 and 9 from one side each."""

import pytest

from tests.log.support import NOW, after, batch, flush, open_log, options, sim_disk
from tidelog.errors import ApiError, ErrorCode
from tidelog.model import TopicPartition
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Assignment, Partition
from tidelog.partition.truncation import EpochEnd

ME, B, C = 0, 1, 2
ALL = (ME, B, C)
LAG = 10_000


def held(*, disk=None, high_watermark=0, **config):
    rules = options(**{"min_insync_replicas": 2, **config})
    log = open_log(disk or sim_disk(), rules)
    name = TopicPartition("t", 0)
    return Partition(name, ME, log, rules, high_watermark=high_watermark, lag_ms=LAG, changed={})


def lead(partition, epoch=5, isr=ALL, partition_epoch=0, now=NOW, replicas=ALL):
    assert partition.assign(Assignment(ME, epoch, isr, partition_epoch, replicas), now)
    return partition


def follow(partition, epoch=5, leader=B, partition_epoch=0):
    assert partition.assign(Assignment(leader, epoch, ALL, partition_epoch, ALL), NOW)
    return partition


def append(partition, *values, now=NOW, acks=-1):
    appended = partition.append(batch(*(values or (b"v",))), acks, now)
    partition.advance(now, ALL)
    return appended


def fetched(partition, replica, offset, now=NOW, eligible=ALL):
    partition.follower_fetched(replica, offset, 0, 100 + replica, now)
    return partition.advance(now, eligible)


def refused(code):
    return pytest.raises(ApiError, match=code.name)


# Rule 1.


def test_the_high_watermark_is_what_the_whole_isr_has():
    leader = lead(held())
    append(leader, b"m1", b"m2")
    fetched(leader, B, 2)
    assert leader.high_watermark == 0
    fetched(leader, C, 1)
    assert leader.high_watermark == 1


def test_below_min_in_sync_the_high_watermark_is_held():
    leader = lead(held(), isr=(ME,))
    append(leader, b"m1", acks=1)
    assert leader.high_watermark == 0
    leader.assign(Assignment(ME, 5, (ME, B), 1, ALL), NOW)
    fetched(leader, B, 1, eligible=(ME, B))
    assert leader.high_watermark == 1


def test_a_lone_replica_advances_by_itself():
    leader = lead(held(), isr=(ME,), replicas=(ME,))
    append(leader, b"m1")
    assert leader.high_watermark == 1


def test_a_replica_that_leaves_the_isr_lets_the_high_watermark_jump():
    leader = lead(held())
    append(leader, b"m1")
    fetched(leader, B, 1)
    leader.assign(Assignment(ME, 5, (ME, B), 1, ALL), NOW)
    late = after(LAG + 1)
    assert leader.advance(late, ALL)
    assert leader.high_watermark == 1


def test_a_live_replica_outside_the_isr_that_is_far_behind_does_not_hold_up_a_new_leader():
    """On a new epoch only members of the ISR get a fresh lag timer."""
    leader = lead(held(), isr=(ME, B))
    append(leader, b"m1")
    fetched(leader, C, 0)
    fetched(leader, B, 1)
    assert leader.high_watermark == 1


# Rule 2.


def test_a_follower_takes_the_high_watermark_of_the_response_and_no_more_than_it_has():
    leader, follower = lead(held()), follow(held())
    append(leader, b"m1")
    append(leader, b"m2")
    piece = leader.read(0, 1 << 20, 2, at_least_one=True)
    follower.append_from_leader(piece.file.read(piece.position, piece.length), 1, 0, NOW)
    assert (follower.high_watermark, follower.log.log_end_offset) == (1, 2)
    follower.append_from_leader(b"", 7, 0, NOW)
    assert follower.high_watermark == 2
    follower.append_from_leader(b"", 1, 0, NOW)
    assert follower.high_watermark == 1, "it is not monotone across leaders"


def test_what_came_while_a_flush_was_under_way_is_not_durable_when_it_ends():
    leader = lead(held(flush_messages=1))
    append(leader, b"m1")
    covered = leader.log.log_end_offset
    leader.log.unsynced()
    append(leader, b"m2")
    fetched(leader, B, 2)
    fetched(leader, C, 2)
    leader.flushed(covered, NOW)
    assert leader.durable_end == 1
    leader.advance(NOW, ALL)
    assert leader.high_watermark == 1
    flush(leader.log)
    leader.flushed(2, NOW)
    leader.advance(NOW, ALL)
    assert leader.high_watermark == 2


def test_what_a_flush_rule_lets_wait_counts_as_it_is():
    leader = lead(held(flush_messages=2))
    append(leader, b"m1", b"m2")
    assert leader.durable_end == 0
    flush(leader.log)
    append(leader, b"m3")
    leader.flushed(2, NOW)
    assert leader.durable_end == 3


# Rule 3.


def test_a_replica_that_fell_behind_is_proposed_to_leave_and_comes_back_once_it_caught_up():
    leader = lead(held())
    append(leader, b"m1")
    fetched(leader, B, 1)
    late = after(LAG + 1)
    proposal = leader.propose_shrink(late, 100)
    assert proposal.isr == (ME, B)
    assert leader.propose_shrink(late, 100) is None, "one change at a time"
    assert leader.proposal_accepted(proposal, (ME, B), 1)
    fetched(leader, C, 0, late)
    assert leader.propose_expansion(C, 100, ALL) is None
    fetched(leader, C, 1, late)
    assert leader.propose_expansion(C, 100, ()) is None, "it is not alive"
    back = leader.propose_expansion(C, 100, ALL)
    assert back.isr == (ME, B, C)
    assert back.broker_epochs == {ME: 100, B: 101, C: 102}


def test_nobody_joins_below_the_first_offset_of_the_leaders_epoch():
    leader = lead(held(), epoch=5)
    append(leader, b"m1", b"m2")
    lead(leader, epoch=6, isr=(ME, B))
    assert leader.high_watermark == 0
    fetched(leader, C, 1)
    assert leader.propose_expansion(C, 100, ALL) is None
    fetched(leader, C, 2)
    assert leader.propose_expansion(C, 100, ALL) is not None


def test_without_a_registration_no_change_is_proposed():
    """It would carry no epoch of this life, and nobody could tell it from an earlier one's."""
    leader = lead(held(), isr=(ME, B))
    append(leader, b"m1")
    fetched(leader, C, 1)
    assert leader.propose_expansion(C, -1, ALL) is None
    assert leader.propose_rejoins(NOW, -1, ALL) is None
    assert leader.propose_shrink(after(LAG + 1), -1) is None


def test_a_refused_proposal_no_longer_counts_and_a_pushed_state_ends_one_in_flight():
    leader = lead(held(), isr=(ME, B))
    append(leader, b"m1")
    fetched(leader, C, 1)
    proposal = leader.propose_expansion(C, 100, ALL)
    leader.proposal_refused(proposal)
    assert leader.role.maximal_isr == {ME, B}
    again = leader.propose_expansion(C, 100, ALL)
    leader.assign(Assignment(ME, 5, (ME,), 1, ALL), NOW)
    assert not leader.proposal_accepted(again, ALL, 1)
    assert leader.role.isr == (ME,)


# Rule 4 (the rest is in tests/api/records/test_acks.py).


def test_acks_all_is_refused_below_min_in_sync_before_anything_is_written():
    leader = lead(held(), isr=(ME,))
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        leader.append(batch(b"m1"), -1, NOW)
    assert leader.log.log_end_offset == 0
    assert leader.append(batch(b"m1"), 1, NOW).first_offset == 0


# Rules 5 and 6.


def test_a_new_leader_notes_its_epoch_at_its_end_at_once():
    leader = lead(held(), epoch=5)
    append(leader, b"m1", b"m2")
    lead(leader, epoch=7)
    assert list(leader.log.epochs) == [(5, 0), (7, 2)]
    assert leader.epoch_end(5) == (5, 2)
    assert leader.epoch_end(6) == (5, 2)
    assert leader.epoch_end(7) == (7, 2)
    assert leader.epoch_end(8) == (-1, -1)
    assert leader.role.remote[B].log_end_offset == -1, "remote ends are forgotten"


def test_a_follower_whose_log_parts_is_told_where_and_cuts_there():
    leader = lead(held(), epoch=5)
    append(leader, b"m1")
    lead(leader, epoch=7)
    append(leader, b"m3")

    other = lead(held(), epoch=5)
    append(other, b"m1")
    append(other, b"lost")
    follow(other, epoch=7, leader=B)

    told = leader.diverging(5, 2)
    assert told == EpochEnd(5, 1)
    assert other.reconcile(told) == (1, True)
    assert other.log.log_end_offset == 1
    assert leader.diverging(5, 1) is None


def test_a_follower_that_skipped_an_epoch_asks_again_until_the_epochs_match():
    leader = lead(held(), epoch=5)
    append(leader, b"m1")
    lead(leader, epoch=8)
    append(leader, b"m2")
    other = lead(held(), epoch=5)
    append(other, b"m1")
    lead(other, epoch=6)
    append(other, b"x")
    lead(other, epoch=7)
    append(other, b"y")
    follow(other, epoch=8)
    rounds = []
    while (told := leader.diverging(other.log.epochs.latest, other.log.log_end_offset)) is not None:
        rounds.append(other.reconcile(told).offset)
    assert rounds == [1]
    assert list(other.log.epochs) == [(5, 0)]


# Rule 7.


def test_epochs_that_differ_are_refused_by_which_is_older():
    leader = lead(held(), epoch=5)
    leader.check_epoch(-1)
    leader.check_epoch(5)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        leader.check_epoch(4)
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        leader.check_epoch(6)


def test_only_a_newer_state_is_taken():
    leader = lead(held(), epoch=5, partition_epoch=3)
    for epoch, partition_epoch in ((4, 9), (5, 2), (5, 3)):
        assert not leader.assign(Assignment(B, epoch, ALL, partition_epoch, ALL), NOW)
    assert isinstance(leader.role, Leader)
    assert leader.assign(Assignment(B, 6, ALL, 4, ALL), NOW)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        leader.append(batch(b"late"), 1, NOW)


def test_an_isr_change_in_the_same_epoch_keeps_what_is_known_of_the_followers():
    leader = lead(held(), epoch=5)
    append(leader, b"m1")
    fetched(leader, B, 1)
    lead(leader, epoch=5, partition_epoch=1, isr=(ME, B))
    assert leader.role.remote[B].log_end_offset == 1


# A failed folder.


def test_a_fetch_of_a_life_that_is_over_says_nothing():
    """It was under way when the follower came back: seed 210966 proposed the old life for the ISR for ever."""
    leader = lead(held())
    leader.follower_fetched(B, 0, 0, 105, NOW)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        leader.follower_fetched(B, 2, 0, 101, NOW)
    assert (leader.role.remote[B].broker_epoch, leader.role.remote[B].log_end_offset) == (105, 0)


def test_a_failed_replica_leads_nothing_any_more():
    leader = lead(held())
    append(leader, b"m1")
    leader.fail()
    assert leader.name in leader.changed
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        leader.append(batch(b"m2"), -1, NOW)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        leader.follower_fetched(B, 1, 0, 101, NOW)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        leader.read(0, 100, 1, at_least_one=True)
    assert leader.propose_shrink(after(LAG + 1), 100) is None, "alone in its ISR it could never be replaced"
    assert leader.propose_rejoins(NOW, 100, ALL) is None
    assert not leader.advance(NOW, ALL)


# DeleteRecords.


def test_records_are_deleted_up_to_the_high_watermark_and_the_low_watermark_is_the_slowest_ones():
    leader = lead(held())
    append(leader, b"m1")
    append(leader, b"m2")
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        leader.delete_records_before(1)
    fetched(leader, B, 2)
    fetched(leader, C, 1)
    assert leader.delete_records_before(-1) == 1
    assert leader.log.log_start_offset == 1
    assert leader.low_watermark(ALL) == 0
    leader.follower_fetched(B, 2, 1, 101, NOW)
    assert leader.low_watermark((ME, B)) == 1
