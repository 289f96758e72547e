"""What starts an election, and what must not: answers that come late, slow disks, a voter that is alone."""

from itertools import pairwise
from random import Random

import pytest

from tests.quorum.replicas import ROOT, One, at, key
from tests.quorum.test_quorum import batch, fetched, followers
from tidelog.effects import Replace, Sync
from tidelog.errors import CorruptLog, ErrorCode
from tidelog.quorum import requests
from tidelog.quorum.requests import LeaderAndEpoch, answered_partition
from tidelog.quorum.states import Candidate, Follower, Leader, Prospective, Unattached
from tidelog.quorum.voters import ReplicaKey, VoterSet
from tidelog.sim.disk import SimDisk


def end_epoch(one, leader, epoch):
    return one.answered(requests.end_request("c", LeaderAndEpoch(leader, epoch), [key(2), one.quorum.me]))


def test_an_answer_from_before_the_leader_resigned_does_not_bring_it_back():
    (one,) = followers(1)
    end_epoch(one, 0, 1)
    fetched(one, batch(1, 1))
    one.settle()
    assert one.quorum.replica.end == 2
    assert one.quorum.state.leader_left
    assert one.vote(2, 1, (1, 9), pre_vote=True).vote_granted
    one.wait(250)  # half a backoff, for the second of two
    assert isinstance(one.quorum.state, Prospective)


def test_an_observer_whose_loop_is_late_asks_at_the_first_input_whatever_that_is():
    """An input that came before the clock's found a node to ask, asked nobody, and waited for its answer."""
    one = One(disk=SimDisk([ROOT], Random(1)), voters=VoterSet(), me=ReplicaKey(7, b"seven" * 3 + b"7"))
    one.settle()
    while not one.quorum._retry_at:
        one.wait(30)
        for each in one.asked:
            one.quorum.answered(each.token, None, at(one.now))
        one.asked.clear()
        one.take()
    one.now = max(one.quorum.state.deadline, *one.quorum._retry_at.values()) + 1
    one.quorum.synced(-1, at(one.now))
    one.take()
    assert one.asked


def test_an_answer_to_a_later_request_proves_that_the_leader_is_there():
    (one,) = followers(2)
    one.quorum.gone(0, at(0))
    fetched(one, b"")
    assert one.quorum.state.leader_left
    fetched(one, b"")
    assert not one.quorum.state.leader_left
    one.wait(1_000)
    assert isinstance(one.quorum.state, Follower)


def test_a_follower_whose_sync_lasts_long_shows_that_it_is_there_and_starts_no_election():
    (one,) = followers(1)
    fetched(one, batch(1, 1))
    assert isinstance(one.writes[0], Sync)
    fetches = 0
    for _ in range(40):
        one.wait(100)
        assert isinstance(one.quorum.state, Follower)
        asked = [each for each in one.asked if each.owner == "quorum-fetch"]
        if asked:
            fetches += 1
            assert asked[0].request.topics[0].partitions[0].fetch_offset == 1  # nothing else is synced
            fetched(one, batch(1, 1), high_watermark=2)
            assert one.quorum.replica.end == 2  # it has that record
            assert one.quorum.replica.high_watermark == 1
    assert 5 < fetches < 10
    one.settle()
    assert one.asked[-1].request.topics[0].partitions[0].fetch_offset == 2


def test_a_follower_whose_file_is_written_slowly_waits_its_full_time_after_that():
    one = One()
    one.settle()
    one.request(requests.begin_request("c", one.quorum.me, LeaderAndEpoch(0, 3)))
    assert isinstance(one.writes[-1], Replace)
    one.wait(5_000)
    assert isinstance(one.quorum.state, Follower)
    one.settle()
    assert [each.owner for each in one.asked][-1:] == ["quorum-fetch"]
    one.wait(1_999)
    assert isinstance(one.quorum.state, Follower)
    one.wait(1)
    assert isinstance(one.quorum.state, Prospective)


def test_a_leader_whose_file_is_written_slowly_announces_itself():
    one = One(0)
    one.settle()
    one.grant_all()
    one.settle()
    one.grant_all()
    assert isinstance(one.quorum.state, Leader)
    one.wait(10_000)
    assert isinstance(one.quorum.state, Leader)
    one.settle()
    assert [each.target for each in one.asked[-2:]] == [1, 2]


def test_a_candidate_whose_file_is_written_slowly_still_requests_votes():
    one = One(0)
    one.settle()
    one.grant_all()
    one.wait(10_000)
    assert isinstance(one.quorum.state, Candidate)
    one.settle()
    assert [each.target for each in one.asked] == [1, 2]
    assert one.quorum.epoch == 1


def test_nothing_wakes_a_replica_that_waits_for_its_disk():
    one = One()
    one.settle()
    one.request(requests.begin_request("c", one.quorum.me, LeaderAndEpoch(0, 3)))
    one.wait(5_000)
    assert one.quorum.next_deadline > one.now


def test_a_voter_that_is_alone_leads_at_once():
    me = key(0)
    one = One(0, voters=VoterSet([me]), me=me)
    one.settle()
    assert (type(one.quorum.state), one.now) == (Leader, 0)
    assert one.quorum.replica.high_watermark == 3
    again = One(0, one.disk, voters=VoterSet([me]), me=me)
    again.settle()
    assert (type(again.quorum.state), again.now) == (Leader, 0)
    assert again.quorum.epoch > 1
    again.quorum.resign(at(0))
    again.take()
    again.settle()
    assert isinstance(again.quorum.state, Leader)


def test_a_removed_leader_claims_nothing_after_a_restart_and_keeps_its_vote():
    one = One(0)
    one.lead()
    others = VoterSet([key(1), key(2)])
    disk = SimDisk([ROOT], Random(1))
    disk.make_folder("/metadata/__cluster_metadata-0")
    disk.replace(
        "/metadata/__cluster_metadata-0/quorum-state", one.disk.read("/metadata/__cluster_metadata-0/quorum-state")
    )
    again = One(0, disk, voters=others)
    again.settle()
    assert isinstance(again.quorum.state, Unattached)
    assert again.quorum.standing == LeaderAndEpoch(-1, 1)
    assert again.quorum.election.voted == key(0)
    refused = again.fetch(1, 0, 0)
    assert answered_partition(again.answers[refused]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not again.vote(2, 1, voter=ReplicaKey(0, key(0).directory)).vote_granted


def reject(one, *voters):
    """These voters refuse the votes that were requested; the requests to the others break."""
    asked, one.asked = [each for each in one.asked if each.owner == "quorum"], []
    for each in asked:
        response = requests.vote_response(LeaderAndEpoch(-1, one.quorum.epoch), 0, granted=False)
        one.quorum.answered(each.token, response if each.target in voters else None, at(one.now))
        one.take()


def missing_its_leader():
    """Voter 1, whose leader is gone, and its pre-votes under way."""
    (one,) = followers(1)
    one.quorum.gone(0, at(0))
    one.take()
    one.asked = [each for each in one.asked if each.owner == "quorum"]
    return one


def test_two_candidates_that_took_each_others_votes_do_not_wait_for_the_dead_leader():
    one = missing_its_leader()
    one.grant_all()
    one.settle()
    assert isinstance(one.quorum.state, Candidate)
    reject(one, 2)  # which is a candidate itself
    waits = one.quorum.state.deadline - one.now
    assert waits <= 100
    one.wait(waits)
    assert isinstance(one.quorum.state, Prospective)


def test_a_voter_that_misses_the_leader_first_asks_again_soon_and_then_more_rarely():
    one = missing_its_leader()
    one.quorum._dice = lambda _, high: high
    waits = []
    for _ in range(6):
        assert isinstance(one.quorum.state, Prospective)
        reject(one, 2)  # it still follows the leader
        assert isinstance(one.quorum.state, Follower)
        waits.append(one.quorum.state.deadline - one.now)
        one.asked = []
        one.wait(waits[-1])
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    one.asked = [each for each in one.asked if each.owner == "quorum"]
    one.grant_all()
    assert isinstance(one.quorum.state, Candidate)


def test_nobody_answering_is_no_defeat():
    one = missing_its_leader()
    reject(one)
    assert isinstance(one.quorum.state, Prospective)


def test_requests_that_fail_again_and_again_become_rare():
    (one,) = followers(1)
    content = bytearray(batch(1, 1))
    content[-1] ^= 1
    times = []
    while one.now < 4_000:
        if any(each.owner == "quorum-fetch" for each in one.asked):
            times.append(one.now)
            fetched(one, bytes(content))  # rot that the leader serves
        one.wait(1)
    assert [later - sooner for sooner, later in pairwise(times)][:6] == [20, 40, 80, 160, 250, 250]
    assert len(times) < 22


def test_a_leader_whose_disk_rots_serves_nothing_of_it():
    one = One(0)
    one.lead()
    path = next(path for path in one.disk.names if path.endswith(".log"))
    one.disk.flip(path, len(one.disk.names[path].cached) - 1)
    with pytest.raises(CorruptLog, match="damaged"):
        one.fetch(1, 0, 0)


def test_a_replica_whose_sync_hangs_does_not_count_as_following():
    one = One(0)
    one.lead()
    one.fetch(1, 0, 0)
    one.wait(10)
    one.fetch(1, 0, 0)  # all that it can say while its disk hangs
    leader = one.quorum.state
    assert leader.replicas[key(1)].fetched_at == one.now
    assert leader.moved_at(key(1)) < one.now
    one.fetch(1, one.quorum.replica.end, 1)
    assert leader.moved_at(key(1)) == one.now
    one.wait(10)
    one.fetch(1, one.quorum.replica.end, 1)  # there is nothing more
    assert leader.moved_at(key(1)) == one.now
