"""What starts an election, and what must not: answers that come late, slow disks, a voter that is alone."""

from random import Random

from tests.quorum.replicas import ROOT, One, at, key
from tests.quorum.test_quorum import batch, fetched, followers
from tidelog.effects import Replace, Sync
from tidelog.errors import ErrorCode
from tidelog.quorum import requests
from tidelog.quorum.requests import Standing, answered_partition
from tidelog.quorum.states import Candidate, Follower, Leader, Prospective, Unattached
from tidelog.quorum.voters import VoterKey, Voters
from tidelog.sim.disk import SimDisk


def end_epoch(one, leader, epoch):
    return one.answered(requests.end_request("c", Standing(leader, epoch), [key(2), one.quorum.me]))


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
    one.request(requests.begin_request("c", one.quorum.me, Standing(0, 3)))
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
    one.request(requests.begin_request("c", one.quorum.me, Standing(0, 3)))
    one.wait(5_000)
    assert one.quorum.next_deadline > one.now


def test_a_voter_that_is_alone_leads_at_once():
    me = key(0)
    one = One(0, voters=Voters([me]), me=me)
    one.settle()
    assert (type(one.quorum.state), one.now) == (Leader, 0)
    assert one.quorum.replica.high_watermark == 3
    again = One(0, one.disk, voters=Voters([me]), me=me)
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
    others = Voters([key(1), key(2)])
    disk = SimDisk([ROOT], Random(1))
    disk.make_folder("/metadata/__cluster_metadata-0")
    disk.replace(
        "/metadata/__cluster_metadata-0/quorum-state", one.disk.read("/metadata/__cluster_metadata-0/quorum-state")
    )
    again = One(0, disk, voters=others)
    again.settle()
    assert isinstance(again.quorum.state, Unattached)
    assert again.quorum.standing == Standing(-1, 1)
    assert again.quorum.election.voted == key(0)
    refused = again.fetch(1, 0, 0)
    assert answered_partition(again.answers[refused]).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not again.vote(2, 1, voter=VoterKey(0, key(0).directory)).vote_granted
