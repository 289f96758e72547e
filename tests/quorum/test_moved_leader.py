"""A leader that moved and leads before the voter set says where it is: its request and answers of others name its place,
which counts until nobody answers there, and not for another leader."""

import pytest

from tests.quorum.replicas import One, at
from tidelog.quorum import requests
from tidelog.quorum.requests import LeaderAndEpoch
from tidelog.wire.messages.cluster.metadata_log import VoterEndpoint
from tidelog.wire.messages.cluster.quorum_elections import NodeEndpoint


def place(port, host="new"):
    return VoterEndpoint(name="CONTROLLER", host=host, port=port)


def begun(one, leader, epoch, *endpoints):
    one.request(requests.begin_request("c", one.quorum.me, LeaderAndEpoch(leader, epoch), endpoints))


def port_of(one, node):
    return [each.port for each in one.quorum.endpoints_of(node)]


@pytest.fixture
def one():
    one = One()
    one.settle()
    return one


def test_a_leader_says_where_it_is(one):
    begun(one, 0, 3, place(9095))
    assert port_of(one, 0) == [9095]
    begun(one, 2, 4)
    assert port_of(one, 0) == []


def test_an_answer_says_where_the_leader_is(one):
    one.wait(2_000)
    asked = one.asked[-1]
    response = requests.vote_response(LeaderAndEpoch(0, 3), 0, granted=False)
    response.node_endpoints = [
        NodeEndpoint(node_id=0, host="new", port=9095),
        NodeEndpoint(node_id=2, host="x", port=1),
    ]
    one.quorum.answered(asked.token, response, at(one.now))
    assert (port_of(one, 0), port_of(one, 2)) == ([9095], [])


def test_a_place_where_nobody_answers_is_forgotten(one):
    begun(one, 0, 3, place(9095))
    one.settle()
    fetch = next(each for each in one.asked if each.owner == "quorum-fetch")
    one.quorum.answered(fetch.token, None, at(one.now))
    assert port_of(one, 0) == []


def test_all_addresses_are_no_place(one):
    begun(one, 0, 3, place(9095, "0.0.0.0"))
    assert port_of(one, 0) == []
