"""Listeners: what a broker opens, what it tells clients, and the brokers' own listener beside the clients'."""

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import advertised, bound, inter_broker_listener
from tidelog.errors import InvalidOption
from tidelog.model import Endpoint


def test_brokers_get_a_listener_of_their_own_on_a_free_port():
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert bound(config) == (
        Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("REPLICATION", "PLAINTEXT", "127.0.0.1", 0),
    )


def test_a_named_listener_beside_the_clients_is_the_brokers():
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,inside://[::1]:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SSL",
            "inter.broker.listener.name": "INSIDE",
        }
    )
    assert inter_broker_listener(config) == "INSIDE"
    assert bound(config)[1] == Endpoint("INSIDE", "SSL", "::1", 9093)
    assert len(bound(config)) == 2


def test_kafkas_own_file_for_kraft_opens_the_clients_listener_only():
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        }
    )
    assert [each.listener for each in bound(config)] == ["PLAINTEXT", "REPLICATION"]
    assert [each.listener for each in advertised(config)] == ["PLAINTEXT"]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"listeners": "9092"}, "NAME://host:port separated by commas, not '9092'"),
        ({"listeners": "PLAINTEXT://:70000"}, "not 'PLAINTEXT://:70000'"),
        ({"listeners": "OTHER://:1"}, "names OTHER, for which listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "not PLAINTEXT twice"),
        ({"listeners": ""}, "must name a listener for clients"),
        ({"listener.security.protocol.map": "PLAINTEXT:CLEAR"}, "not 'PLAINTEXT:CLEAR'"),
    ],
)
def test_a_wrong_listener_is_refused(given, part):
    with pytest.raises(InvalidOption) as error:
        bound(BrokerConfig(given))
    assert part in str(error.value)
