"""Listeners: what a broker opens, what it advertises to clients, and the brokers' own listener beside the clients'."""

from socket import gethostname

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.listeners import advertised, bound, inter_broker_listener, shown_by_controllers
from tidelog.errors import InvalidOption
from tidelog.model import Endpoint
from tidelog.shell import hosting


def test_brokers_get_a_listener_of_their_own_on_a_port_that_is_known_before():
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert bound(config) == (
        Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("REPLICATION", "PLAINTEXT", "127.0.0.1", 10_092),
    )


@pytest.mark.parametrize(
    ("listeners", "port"),
    [
        ("PLAINTEXT://:9092", 10_092),
        ("PLAINTEXT://:9093,SSL://:9092", 10_093),
        ("PLAINTEXT://:65000", 64_000),
        ("PLAINTEXT://:0", 0),
        ("PLAINTEXT://:9092,SSL://:10092", 0),
        ("PLAINTEXT://:9092,REPLICATION://:4711", 4711),
        ("PLAINTEXT://:9092,REPLICATION://:0", 0),
    ],
)
def test_the_brokers_port_follows_from_the_first_listeners(listeners, port):
    assert {each.listener: each.port for each in bound(BrokerConfig({"listeners": listeners}))}["REPLICATION"] == port


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
        ({"listeners": "OTHER://:1"}, "OTHER has no protocol in listener.security.protocol.map"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "not PLAINTEXT twice"),
        ({"listeners": ""}, "must name a listener for clients"),
        ({"listener.security.protocol.map": "PLAINTEXT:CLEAR"}, "not 'PLAINTEXT:CLEAR'"),
    ],
)
def test_a_wrong_listener_is_refused(given, part):
    with pytest.raises(InvalidOption) as error:
        bound(BrokerConfig(given))
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("host", "shown"),
    [("0.0.0.0", []), ("", []), ("[::]", []), ("[0:0::0]", []), ("0", []), ("10.0.0.0", ["10.0.0.0"])],
)
def test_a_controller_does_not_say_that_it_is_reached_at_all_addresses(host, shown):
    given = {
        "listeners": f"PLAINTEXT://127.0.0.1:9092,CONTROLLER://{host}:9093",
        "controller.listener.names": "CONTROLLER",
    }
    assert [each.host for each in shown_by_controllers(BrokerConfig(given))] == shown
    named = {**given, "advertised.listeners": "CONTROLLER://h1:9093"}
    assert [each.host for each in shown_by_controllers(BrokerConfig(named))] == ["h1"]


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]"])
def test_all_addresses_are_not_advertised(host):
    with pytest.raises(
        InvalidOption, match=r"advertised\.listeners: nobody can connect to PLAINTEXT://.*:9092; set the"
    ):
        advertised(BrokerConfig({"advertised.listeners": f"PLAINTEXT://{host}:9092"}))


@pytest.mark.parametrize(
    ("listener", "told"), [("PLAINTEXT://0.0.0.0:9092", ""), ("PLAINTEXT://h:9092", "PLAINTEXT://:9092")]
)
def test_a_broker_at_all_addresses_is_reached_by_the_name_of_its_machine(listener, told):
    config = BrokerConfig({"listeners": listener} | ({"advertised.listeners": told} if told else {}))
    assert hosting._advertised(config, [(bound(config)[0], None)])[0].host == gethostname()
