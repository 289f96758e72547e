"""The rules of section 4 and 5 of the quorum's design, one replica at a time. Whole quorums: tests/simulation."""

from itertools import pairwise
from random import Random

import pytest

from tests.quorum.replicas import FOLDER, ROOT, VOTERS, One, at, key
from tidelog.errors import ApiError, CorruptLog, ErrorCode
from tidelog.quorum import requests
from tidelog.quorum.replica import SAVE_EVERY_MS
from tidelog.quorum.requests import LeaderAndEpoch, answered_partition
from tidelog.quorum.state_file import load_state
from tidelog.quorum.states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from tidelog.quorum.voters import NOBODY, ReplicaKey, VoterSet
from tidelog.sim.disk import SimDisk
from tidelog.wire.messages.cluster.quorum_elections import VoteRequest
from tidelog.wire.records import Record, batches, build, stamp


def test_nothing_is_sent_at_the_start_before_the_file_is_written_again():
    one = One(0)
    assert isinstance(one.quorum.state, Prospective)
    assert one.asked == []
    one.settle()
    assert [each.target for each in one.asked] == [1, 2]
    again = One(0, one.disk)
    token = again.request(requests.vote_request("c", key(2), key(0), 1, requests.LogEnd(0, 0), pre_vote=True))
    assert token not in again.answers
    again.settle()
    assert token in again.answers


def test_a_vote_is_sent_once_it_is_durable():
    one = One()
    one.settle()
    token = one.request(requests.vote_request("c", key(2), key(1), 4, requests.LogEnd(0, 0), pre_vote=False))
    assert token not in one.answers
    assert load_state(one.disk, FOLDER).voted == NOBODY
    one.settle()
    assert answered_partition(one.answers[token]).vote_granted
    assert load_state(one.disk, FOLDER)[::2] == (4, key(2))


def test_one_vote_in_an_epoch():
    one = One()
    assert one.vote(2, 4).vote_granted
    assert one.vote(2, 4).vote_granted  # its answer may have been lost
    assert not one.vote(0, 4).vote_granted
    assert one.vote(0, 5).vote_granted
    one = One(disk=one.disk)
    assert not one.vote(2, 5).vote_granted


def test_no_vote_where_a_leader_is_known_or_the_log_is_shorter():
    one = One()
    one.begin(0, 3)
    assert not one.vote(2, 3).vote_granted
    one = One(0)
    one.lead()
    assert not one.vote(2, 9, (0, 0)).vote_granted
    assert one.vote(2, 10, (1, 3)).vote_granted


def test_a_pre_vote_while_the_leader_is_alive_is_refused():
    one = One()
    one.begin(0, 3)
    assert one.vote(2, 3, pre_vote=True).vote_granted
    one.quorum.answered(one.asked[-1].token, requests.fetch_response(LeaderAndEpoch(0, 3), high_watermark=0), at(5))
    one.take()
    assert not one.vote(2, 3, pre_vote=True).vote_granted
    one.quorum.gone(0, at(6))
    assert one.vote(2, 3, pre_vote=True).vote_granted


def test_requests_are_refused_in_order():
    one = One()
    one.begin(0, 3)
    assert one.vote(2, 2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert one.vote(2, 4, (4, 9)).error_code == ErrorCode.INVALID_REQUEST
    assert one.vote(2, 4, voter=ReplicaKey(1, b"other directory!")).error_code == ErrorCode.INVALID_VOTER_KEY
    assert one.begin(-1, 9).error_code == ErrorCode.INVALID_REQUEST
    foreign = requests.vote_request("d", key(2), key(1), 9, requests.LogEnd(0, 0), pre_vote=False)
    assert one.answers[one.request(foreign)].error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    foreign = requests.vote_request("c", key(2), key(1), 9, requests.LogEnd(0, 0), pre_vote=False)
    foreign.topics[0].topic_name = "t"
    assert one.answers[one.request(foreign)].error_code == ErrorCode.INVALID_REQUEST
    assert one.quorum.epoch == 4


def test_an_election_from_the_first_pre_vote_to_the_first_commit():
    one = One(0)
    assert isinstance(one.quorum.state, Prospective)
    one.settle()
    one.grant_all()
    assert isinstance(one.quorum.state, Candidate)
    assert one.asked == []  # its own vote is not durable
    one.settle()
    one.grant_all()
    assert isinstance(one.quorum.state, Leader)
    one.settle()
    assert load_state(one.disk, FOLDER)[:2] == (1, 0)
    assert [batch.count for batch in batches(one.quorum.replica.log.segments.active.file.read(0, 4_096))] == [1, 2]
    assert one.quorum.replica.high_watermark == 0
    one.fetch(1, 3, 1)
    assert one.quorum.replica.high_watermark == 3
    assert one.quorum.voters == VOTERS


def test_a_majority_of_an_older_epoch_commits_nothing():
    one = One(0)
    one.lead()
    one.quorum.resign(at(one.now))
    one.take()
    assert isinstance(one.quorum.state, Resigned)
    one.wait(1_000)
    assert isinstance(one.quorum.state, Unattached)
    one.lead()
    assert one.quorum.replica.end == 4
    one.fetch(1, 3, 1)
    assert one.quorum.replica.high_watermark == 0
    one.fetch(1, 4, one.quorum.epoch)
    assert one.quorum.replica.high_watermark == 4


def test_only_synced_records_count():
    one = One(0)
    one.lead()
    assert one.quorum.append([b"a"], at(one.now)) == 3
    one.take()
    one.fetch(1, 4, 1)
    assert one.quorum.replica.high_watermark == 3
    one.settle()
    assert one.quorum.replica.high_watermark == 4


def test_a_fetch_waits_for_records_and_names_where_logs_diverge():
    one = One(0)
    one.lead()
    waiting = one.fetch(1, 3, 1)
    assert waiting not in one.answers
    one.quorum.append([b"a"], at(one.now))
    one.take()
    one.settle()
    assert answered_partition(one.answers[waiting]).records.length > 0
    too_far = one.fetch(2, 9, 1)
    end = answered_partition(one.answers[too_far]).diverging_epoch
    assert (end.epoch, end.end_offset) == (1, 4)
    codes = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)
    for epoch, code in zip((0, 2), codes, strict=True):
        token = one.fetch(2, 0, 0, epoch=epoch)
        assert answered_partition(one.answers[token]).error_code == code
    waiting = one.fetch(1, 4, 1)
    one.wait(500)
    assert waiting in one.answers


def test_a_leader_that_nobody_fetches_from_resigns_and_says_so():
    one = One(0)
    one.lead()
    one.fetch(1, 3, 1)
    one.wait(2_999)
    assert isinstance(one.quorum.state, Leader)
    waiting = one.fetch(2, 2, 1)  # another voter, so its time begins again
    one.wait(2_999)
    assert isinstance(one.quorum.state, Leader)
    one.asked.clear()
    one.wait(1)
    assert isinstance(one.quorum.state, Resigned)
    assert waiting in one.answers
    assert [each.target for each in one.asked] == [1, 2]
    candidates = one.asked[0].request.topics[0].partitions[0].preferred_candidates
    assert [candidate.candidate_id for candidate in candidates] == [1, 2]  # the longest log first


def test_a_follower_of_a_dead_leader_waits_by_its_place():
    one = One(2)
    one.begin(0, 3)
    one.quorum.gone(1, at(0))
    assert isinstance(one.quorum.state, Follower)
    one.quorum.gone(0, at(0))
    one.wait(49)
    assert isinstance(one.quorum.state, Follower)
    one.wait(1)
    assert isinstance(one.quorum.state, Prospective)


def test_where_it_begins_follows_from_its_file():
    one = One(0)
    one.lead()
    assert isinstance(One(0, one.disk).quorum.state, Resigned)
    one = One(0)
    one.settle()
    one.grant_all()
    one.settle()
    assert isinstance(One(0, one.disk).quorum.state, Candidate)
    one = One()
    one.begin(0, 3)
    assert One(1, one.disk).quorum.state.leader == 0


def test_a_replica_whose_file_is_lost_or_unreadable_does_not_start():
    one = One(0)
    one.lead()
    content = one.disk.read(f"{FOLDER}/quorum-state")
    one.disk.remove(f"{FOLDER}/quorum-state")
    with pytest.raises(CorruptLog, match="epoch 1"):
        One(0, one.disk)
    one.disk.replace(f"{FOLDER}/quorum-state", content[:-9])
    with pytest.raises(CorruptLog, match="not a quorum state"):
        One(0, one.disk)


def test_an_observer_asks_who_leads_and_never_votes():
    one = One(disk=SimDisk([ROOT], Random(1)), voters=VoterSet(), me=ReplicaKey(7, b"seven" * 3 + b"7"))
    one.settle()
    one.wait(10_000)
    assert isinstance(one.quorum.state, Unattached)
    answer = requests.fetch_response(LeaderAndEpoch(2, 6), ErrorCode.FENCED_LEADER_EPOCH)
    one.quorum.answered(one.asked[0].token, answer, at(one.now))
    one.take()
    one.settle()
    assert one.quorum.state.leader == 2
    assert one.asked[-1].target == 2
    one.wait(2_000)
    assert isinstance(one.quorum.state, Unattached)


def test_an_observer_passes_over_nodes_that_failed_until_one_of_them_is_due():
    """It asked the dead leader again and again, or nobody, while another one led: half a second and more."""
    one = One(disk=SimDisk([ROOT], Random(1)), voters=VoterSet(), me=ReplicaKey(7, b"seven" * 3 + b"7"))
    one.quorum._dice = lambda low, high: high if low else low  # the longest waits, the first node
    one.settle()
    for _ in range(20):
        one.wait(10)
    backoff = one.quorum.options.retry_backoff_ms
    asked, since = [], 0
    for _ in range(100):
        one.wait(5)
        since += 5
        for each in one.asked:
            asked.append((each.target, since))
            one.quorum.answered(each.token, None, at(one.now))
        one.asked.clear()
        one.take()
    assert {target for target, when in asked if when <= 8 * backoff} == {0, 1, 2}
    assert max(later[1] - earlier[1] for earlier, later in pairwise(asked)) <= 250 + 5


def test_an_observer_gets_a_record_once_with_what_commits_it():
    one = One()
    one.lead()
    one.fetch(0, 1, 1)
    one.fetch(2, 1, 1)
    one.settle()
    end = one.quorum.append([b"a"], at(one.now)) + 1
    one.take()
    voter, observer = one.fetch(0, end - 1, 1), one.fetch(9, end - 1, 1, high_watermark=end - 1)
    assert voter in one.answers
    assert observer not in one.answers
    one.settle()
    one.fetch(0, end, 1)
    partition = answered_partition(one.answers[observer])
    assert (partition.high_watermark, bool(partition.records)) == (end, True)


def test_only_a_leader_appends():
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        One().quorum.append([b"a"], at(0))


def test_whoever_claims_to_lead_an_epoch_with_another_leader_is_refused():
    one = One()
    one.begin(0, 3)
    assert one.begin(2, 3).error_code == ErrorCode.INVALID_REQUEST
    ended = requests.end_request("c", LeaderAndEpoch(2, 3), [key(1)])
    assert one.answered(ended).error_code == ErrorCode.INVALID_REQUEST
    assert (one.quorum.state.leader, one.quorum.epoch) == (0, 3)


def test_two_leaders_of_one_epoch_in_what_others_answer_stop_the_process():
    one = One()
    one.begin(0, 3)
    one.settle()
    with pytest.raises(AssertionError, match="epoch 3"):
        one.quorum.answered(one.asked[-1].token, requests.fetch_response(LeaderAndEpoch(2, 3)), at(one.now))


@pytest.mark.parametrize("epoch", [2**31 - 1, -1])
def test_an_epoch_after_which_there_is_no_other_is_refused(epoch):
    one = One()
    assert one.vote(2, epoch).error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH)
    assert one.begin(2, epoch).error_code in (ErrorCode.INVALID_REQUEST, ErrorCode.FENCED_LEADER_EPOCH)
    assert one.quorum.epoch == 0


def batch(epoch, offset, text=b"record"):
    made = bytearray(build([Record(timestamp=1, value=text)]))
    stamp(made, 0, offset, epoch)
    return bytes(made)


def fetched(one, content, high_watermark=0):
    """The leader, node 0 in epoch 1, answers the last fetch."""
    asked = [each for each in one.asked if each.owner == "quorum-fetch"][-1]
    one.asked.remove(asked)
    answer = requests.fetch_response(LeaderAndEpoch(0, 1), 0, high_watermark=high_watermark, records=content)
    one.quorum.answered(asked.token, answer, at(one.now))
    one.take()


def followers(*nodes):
    """Followers of node 0 with one record."""
    made = [One(node) for node in nodes]
    for one in made:
        one.settle()
        one.begin(0, 1)
        one.settle()
        fetched(one, batch(1, 0))
        one.settle()
    return made


def vote_requests(one):
    return [each for each in one.asked if isinstance(each.request, VoteRequest)]


def test_votes_are_requested_for_what_is_synced():
    """Otherwise: it wins with a record that a power loss takes from it, votes for itself again, and leads without
    what the old leader and the other follower had committed."""
    (one,) = followers(1)
    fetched(one, batch(1, 1), high_watermark=1)
    one.quorum.gone(0, at(one.now))
    one.wait(200)
    assert isinstance(one.quorum.state, Prospective)
    assert vote_requests(one) == []
    one.settle()
    assert {each.request.topics[0].partitions[0].last_offset for each in vote_requests(one)} == {2}


def test_a_vote_is_not_granted_again_for_a_log_that_became_shorter():
    (one,) = followers(1)
    one.quorum.gone(0, at(one.now))
    assert one.vote(2, 2, (1, 2)).vote_granted
    assert one.vote(2, 2, (1, 1)).vote_granted
    assert not one.vote(2, 2, (1, 0)).vote_granted


def test_the_first_voters_are_written_by_the_next_leader_if_a_power_loss_took_them():
    disk = SimDisk([ROOT], Random(1))
    first = One(0, disk)
    first.lead()
    first.settle()
    first.quorum.replica.high_watermark = 0
    first.quorum.replica.cut_to(1)
    assert first.quorum.replica.voters.latest_offset < 0
    again = One(0, disk)
    again.lead()
    assert again.quorum.replica.voters.latest_offset > 0


def test_damaged_records_of_the_leader_are_fetched_again():
    (one,) = followers(1)
    content = bytearray(batch(1, 1))
    content[-1] ^= 1
    fetched(one, bytes(content))
    assert one.quorum.replica.end == 1
    assert isinstance(one.quorum.state, Follower)
    one.wait(one.quorum.options.retry_backoff_ms)
    fetched(one, batch(1, 1))
    assert one.quorum.replica.end == 2


def test_the_high_watermark_is_saved_beside_the_records_now_and_then():
    """Otherwise a restarted follower would apply nothing until it has heard of a leader."""
    (one,) = followers(1)
    fetched(one, b"", high_watermark=1)
    assert one.quorum.replica.saved.high_watermark == 0
    one.settle()
    assert one.quorum.replica.saved.high_watermark == 1
    fetched(one, batch(1, 1), high_watermark=2)
    one.settle()
    assert one.quorum.replica.saved.high_watermark == 1  # the next one comes later
    assert one.quorum.next_deadline <= SAVE_EVERY_MS
    one.disk.lose_power()
    assert One(1, one.disk).quorum.replica.high_watermark == 1
    one.wait(SAVE_EVERY_MS)
    one.settle()
    assert One(1, one.disk).quorum.replica.high_watermark == 2


def test_a_new_leader_gives_out_no_high_watermark_before_its_first_record_is_committed():
    """It may be lower than the one that the leader before it gave out."""
    one = One(0)
    one.lead()
    one.fetch(1, 3, 1)
    one.quorum.resign(at(one.now))
    one.wait(1_000)
    one.lead()
    token = one.fetch(1, 3, 1, high_watermark=0)
    assert answered_partition(one.answers[token]).high_watermark == -1
    one.fetch(1, 4, one.quorum.epoch, high_watermark=0)
    token = one.fetch(2, 3, 1, high_watermark=0)
    assert answered_partition(one.answers[token]).high_watermark == 4
