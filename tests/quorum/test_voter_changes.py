"""Adding, removing and updating voters (KIP-853): the order of the checks, and what counts from when on (I40)."""

import pytest

from tests.quorum.replicas import VOTERS, One, at, key
from tests.quorum.test_quorum import batch, fetched, followers, vote_requests
from tidelog.errors import ErrorCode
from tidelog.model import NO_ID
from tidelog.quorum import requests
from tidelog.quorum.control_records import control_batch
from tidelog.quorum.states import Leader, Prospective, Resigned
from tidelog.quorum.voter_changes import update_request
from tidelog.quorum.voters import ReplicaKey, VoterSet, voter_record
from tidelog.wire.messages.cluster.features import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint, VotersRecord
from tidelog.wire.messages.cluster.quorum_voters import (
    AddRaftVoterRequest,
    Listener,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)

NEW = key(3)


def leader(*, in_office=True):
    one = One(0)
    one.lead()
    if in_office:
        one.fetch(1, one.quorum.replica.end, 1)
    one.asked.clear()
    return one


def add(which=NEW, **fields):
    listeners = [Listener(name="CONTROLLER", host="three", port=9093)]
    wanted = {"cluster_id": "c", "timeout_ms": 1_000, "listeners": listeners} | fields
    return AddRaftVoterRequest(voter_id=which.id, voter_directory_id=which.directory, **wanted)


def remove(which, **fields):
    return RemoveRaftVoterRequest(voter_id=which.id, voter_directory_id=which.directory, **{"cluster_id": "c"} | fields)


def code_of(one, request):
    token = one.request(request)
    one.settle()
    return one.answers[token].error_code if token in one.answers else None


def versions(one, least=0, most=1):
    """The new voter answers."""
    asked = next(each for each in one.asked if isinstance(each.request, ApiVersionsRequest))
    one.asked.remove(asked)
    features = [SupportedFeatureKey(name="kraft.version", min_version=least, max_version=most)]
    one.quorum.answered(asked.token, ApiVersionsResponse(supported_features=features), at(one.now))
    one.take()
    return asked


def caught_up(one, which=NEW):
    one.fetch(which.id, one.quorum.replica.end, one.quorum.epoch)


def test_a_voter_is_added_once_it_answers_and_has_caught_up():
    one = leader()
    caught_up(one)
    token = one.request(add())
    assert one.quorum.endpoints_of(3)[0].host == "three"
    assert versions(one).target == 3
    assert one.quorum.voters.ids == (0, 1, 2, 3)
    assert one.quorum.voters.record_of(3).endpoints == [VoterEndpoint(name="CONTROLLER", host="three", port=9093)]
    one.settle()
    assert token not in one.answers
    one.fetch(1, 4, 1)
    assert one.quorum.replica.high_watermark == 3  # two of four are no majority
    caught_up(one)
    one.wait(0)
    assert one.quorum.replica.high_watermark == 4
    assert (one.answers[token].error_code, one.answers[token].error_message) == (0, None)


def test_the_answer_need_not_wait_for_the_commit_but_the_next_change_does():
    one = leader()
    caught_up(one)
    token = one.request(add(ack_when_committed=False))
    versions(one)
    one.settle()
    assert one.answers[token].error_code == 0
    assert code_of(one, remove(key(1))) == ErrorCode.REQUEST_TIMED_OUT
    one.fetch(1, 4, 1)
    caught_up(one)
    assert code_of(one, remove(key(1))) is None


@pytest.mark.parametrize(
    "request_",
    [add(ReplicaKey(-1, b"x" * 16)), add(ReplicaKey(3, NO_ID)), add(listeners=[]), remove(ReplicaKey(1, NO_ID))],
)
def test_a_change_without_a_key_or_an_endpoint_is_invalid(request_):
    assert code_of(leader(), request_) == ErrorCode.INVALID_REQUEST


def test_a_voter_at_all_addresses_is_not_added():
    one = leader()
    token = one.request(add(listeners=[Listener(name="CONTROLLER", host="0.0.0.0", port=9093)]))
    one.settle()
    assert one.answers[token].error_code == ErrorCode.INVALID_REQUEST
    assert one.answers[token].error_message.startswith("Nobody can connect to the voter at 0.0.0.0:9093, which opens")


def test_changes_are_refused_in_order():
    assert code_of(One(1), add()) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    one = leader(in_office=False)
    assert code_of(one, add(cluster_id="d")) == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert code_of(one, add()) == ErrorCode.REQUEST_TIMED_OUT  # the high watermark is not known
    one = leader()
    assert code_of(one, add(ReplicaKey(1, b"another disk 1111"[:16]))) == ErrorCode.DUPLICATE_VOTER
    assert code_of(one, remove(ReplicaKey(1, b"another disk 1111"[:16]))) == ErrorCode.VOTER_NOT_FOUND
    assert code_of(one, add()) is None
    assert code_of(one, add(key(4))) == ErrorCode.REQUEST_TIMED_OUT  # another one is pending
    assert code_of(one, remove(key(1))) == ErrorCode.REQUEST_TIMED_OUT


def test_static_voters_cannot_be_changed():
    static = VoterSet([ReplicaKey(n) for n in range(3)], directories=False)
    one = One(0, voters=static)
    one.lead()
    one.fetch(1, 1, 1)
    assert code_of(one, add()) == ErrorCode.UNSUPPORTED_VERSION
    assert code_of(one, remove(key(1))) == ErrorCode.UNSUPPORTED_VERSION


def test_a_new_voter_that_is_unable_or_behind_is_refused():
    one = leader()
    token = one.request(add())
    versions(one, most=0)
    assert one.answers[token].error_code == ErrorCode.INVALID_REQUEST
    token = one.request(add())
    versions(one)
    assert one.answers[token].error_code == ErrorCode.REQUEST_TIMED_OUT
    one.fetch(3, 1, 1)
    token = one.request(add())
    versions(one)
    assert "caught up" in one.answers[token].error_message
    token = one.request(add())
    asked = next(each for each in one.asked if isinstance(each.request, ApiVersionsRequest))
    one.quorum.answered(asked.token, None, at(one.now))
    one.take()
    assert one.answers[token].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert one.quorum.voters == VOTERS


def test_a_change_that_takes_too_long_is_answered():
    one = leader()
    token = one.request(add(timeout_ms=100))
    assert one.quorum.next_deadline <= 100
    one.wait(100)
    assert one.answers[token].error_code == ErrorCode.REQUEST_TIMED_OUT
    versions(one)
    assert one.quorum.voters == VOTERS
    token = one.request(add())
    one.quorum.resign(at(one.now))
    one.take()
    assert one.answers[token].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_removed_leader_goes_on_without_counting_itself_until_that_is_committed():
    one = leader()
    token = one.request(remove(key(0)))
    one.settle()
    assert isinstance(one.quorum.state, Leader)
    one.fetch(1, 4, 1)
    assert one.quorum.replica.high_watermark == 3  # one of the two that are left
    one.fetch(2, 4, 1)
    one.wait(0)
    assert isinstance(one.quorum.state, Resigned)
    assert one.answers[token].error_code == 0
    assert [each.target for each in one.asked if each.owner == "quorum"] == [1, 2]


def test_a_leader_whose_removal_is_not_committed_stands_for_election_again():
    """It may be the only one that has all that was committed. Its own vote does not count."""
    one = leader()
    assert code_of(one, remove(key(0))) is None
    one.quorum.resign(at(one.now))
    one.wait(1_000)
    one.wait(2_000)
    assert isinstance(one.quorum.state, Prospective)
    one.settle()
    assert [each.target for each in vote_requests(one)] == [1, 2]
    first, second = vote_requests(one)
    for each in (first, second):
        one.asked.remove(each)
        response = requests.vote_response(requests.LeaderAndEpoch(-1, one.quorum.epoch), 0, granted=True)
        assert isinstance(one.quorum.state, Prospective)
        one.quorum.answered(each.token, response, at(one.now))
        one.take()
    one.settle()
    one.grant_all()
    one.settle()
    assert isinstance(one.quorum.state, Leader)
    assert one.quorum.voters.ids == (1, 2)


def test_the_last_voter_is_not_removed():
    me = key(0)
    one = One(0, voters=VoterSet([me]), me=me)
    one.settle()
    assert code_of(one, remove(me)) == ErrorCode.VOTER_NOT_FOUND


def test_a_voter_that_is_alone_may_add_one_and_goes_on_leading():
    me = key(0)
    one = One(0, voters=VoterSet([me]), me=me)
    one.settle()
    one.wait(100_000)
    caught_up(one)
    one.wait(5_000)
    one.request(add())
    versions(one)
    one.wait(0)
    assert isinstance(one.quorum.state, Leader)
    one.wait(2_999)
    assert isinstance(one.quorum.state, Leader)
    one.wait(1)
    assert isinstance(one.quorum.state, Resigned)


def test_what_a_voters_former_disk_had_does_not_count_for_its_new_one():
    one = leader()
    one.fetch(2, 3, 1)
    assert code_of(one, remove(key(2))) is None
    one.fetch(1, 4, 1)
    one.wait(0)
    other = ReplicaKey(2, b"a new disk's id!")
    one.quorum.state.replicas[other] = one.quorum.state.replicas[key(1)].__class__(end=0, caught_up_at=one.now)
    one.request(add(other))
    versions(one)
    one.settle()
    end = one.quorum.replica.end
    one.fetch(2, end, 1)  # from the former disk
    assert one.quorum.replica.high_watermark < end


def test_a_follower_tells_where_it_is_reached_until_the_log_says_so():
    (one,) = followers(1)
    one.quorum._endpoints = [VoterEndpoint(name="CONTROLLER", host="one", port=1)]
    fetched(one, b"")
    (asked,) = [each for each in one.asked if isinstance(each.request, UpdateRaftVoterRequest)]
    assert [(each.host, each.port) for each in asked.request.listeners] == [("one", 1)]
    one.asked.remove(asked)
    one.quorum.answered(asked.token, None, at(one.now))
    one.take()
    fetched(one, b"")
    assert [each for each in one.asked if isinstance(each.request, UpdateRaftVoterRequest)] == []  # not at once
    records = [voter_record(key(n), one.quorum._endpoints if n == 1 else ()) for n in range(3)]
    fetched(one, control_batch([VotersRecord(voters=records)], timestamp=1, base_offset=1, epoch=1))
    one.settle()
    one.wait(2_000)
    assert [each for each in one.asked if isinstance(each.request, UpdateRaftVoterRequest)] == []


def test_an_update_is_appended_if_the_set_has_other_endpoints():
    one = leader()
    endpoints = [VoterEndpoint(name="CONTROLLER", host="one", port=1)]
    request = update_request("c", key(1), 1, endpoints)
    assert code_of(one, request) == 0
    assert one.quorum.voters.record_of(1).endpoints == endpoints
    end = one.quorum.replica.end
    one.fetch(1, end, 1)
    one.wait(0)
    assert code_of(one, request) == 0
    assert one.quorum.replica.end == end
    assert code_of(one, update_request("c", key(1), 0, endpoints)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(one, update_request("c", key(3), 1, endpoints)) == ErrorCode.VOTER_NOT_FOUND
    assert code_of(one, update_request("c", key(1), 1, [])) == ErrorCode.INVALID_REQUEST
    everywhere = [*endpoints, VoterEndpoint(name="OTHER", host="::", port=1)]
    assert code_of(one, update_request("c", key(1), 1, everywhere)) == ErrorCode.INVALID_REQUEST


def test_a_set_that_is_cut_is_undone():
    (one,) = followers(1)
    fewer = VotersRecord(voters=[voter_record(key(n)) for n in (0, 1)])
    fetched(one, control_batch([fewer], timestamp=1, base_offset=1, epoch=1) + batch(1, 2))
    assert one.quorum.voters.ids == (0, 1)
    one.settle()
    one.quorum.replica.cut_to(1)
    assert one.quorum.voters == VOTERS
