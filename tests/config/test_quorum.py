"""The options of a metadata quorum: what they say, and each contradiction as a sentence."""

import pytest

from tidelog.config.broker import BrokerConfig
from tidelog.config.quorum import Address, StaticVoter, quorum_of
from tidelog.errors import InvalidOption

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://one:9092,CONTROLLER://one:9093",
    "controller.quorum.voters": "1@one:9093,2@two:9093",
    "log.dirs": "/data/a,/data/b",
}
BROKER = {**COMBINED, "process.roles": "broker", "node.id": "7", "listeners": "PLAINTEXT://one:9092"}


def quorum(given=COMBINED, **changed):
    texts = {**given, **{name.replace("_", "."): text for name, text in changed.items()}}
    return quorum_of(BrokerConfig({name: text for name, text in texts.items() if text is not None}))


def test_a_combined_node_with_static_voters():
    found = quorum()
    assert (found.node_id, found.roles, found.is_controller) == (1, {"broker", "controller"}, True)
    assert found.voters == (StaticVoter(1, "one", 9093), StaticVoter(2, "two", 9093))
    assert (found.bootstrap, found.listener, found.own) == ((), "CONTROLLER", Address("one", 9093))
    assert found.metadata_folder == "/data/a"


def test_a_broker_of_controllers_that_can_change():
    found = quorum(BROKER, controller_quorum_voters=None, controller_quorum_bootstrap_servers="one:9093,[::1]:9094")
    assert (found.voters, found.bootstrap) == ((), (Address("one", 9093), Address("::1", 9094)))
    assert (found.is_controller, found.own) == (False, None)


def test_a_controller_is_reached_where_it_is_advertised():
    shown = "PLAINTEXT://one:9092,CONTROLLER://outside:19093"
    assert quorum(advertised_listeners=shown).own == Address("outside", 19093)
    assert quorum(metadata_log_dir="/fast").metadata_folder == "/fast"


def test_the_listener_of_controllers_may_have_a_protocol():
    secured = "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"
    assert quorum(listener_security_protocol_map=secured).own == Address("one", 9093)


@pytest.mark.parametrize(
    ("given", "changed", "sentence"),
    [
        (COMBINED, {"process_roles": None}, "process.roles is missing"),
        (COMBINED, {"node_id": None}, "node.id is missing"),
        (COMBINED, {"controller_listener_names": None}, "controller.listener.names is missing"),
        (COMBINED, {"controller_quorum_voters": None}, "controller.quorum.voters and .*bootstrap.servers are missing"),
        (COMBINED, {"listeners": "PLAINTEXT://one:9092"}, r"listeners must have the listeners of .*\(CONTROLLER\)"),
        (COMBINED, {"controller_listener_names": "CONTROLLER,OTHER"}, "listeners must have the listeners of"),
        (BROKER, {"listeners": "CONTROLLER://one:9093"}, "listeners has CONTROLLER of .*remove one of them"),
        (BROKER, {"node_id": "2"}, "voters has node 2, but process.roles does not have controller"),
        (COMBINED, {"node_id": "3"}, "process.roles has controller, but .*voters does not have node 3"),
        (COMBINED, {"process_roles": "controller"}, r"may be those of controllers only \(CONTROLLER\)"),
        (COMBINED, {"controller_quorum_voters": "1@one:9093,1@two:9093"}, "name each controller once, not 1 twice"),
        (COMBINED, {"controller_quorum_voters": "1@0.0.0.0:9093"}, "nobody can connect to 0.0.0.0; set the address"),
        (COMBINED, {"controller_quorum_voters": "1@one"}, "'one' is not a valid address; expected HOST:PORT"),
        (COMBINED, {"controller_quorum_voters": "one:9093"}, "must be id@host:port separated by commas, not 'one:9093'"),
        (COMBINED, {"controller_quorum_voters": "1@one:99999"}, "'one:99999' is not a valid address"),
        (BROKER, {"controller_quorum_bootstrap_servers": "x"}, "servers: 'x' is not a valid address"),
        (COMBINED, {"controller_quorum_auto_join_enable": "true"}, "auto.join.enable needs controllers that are not fixed"),
        (COMBINED, {"listener_security_protocol_map": "PLAINTEXT:PLAINTEXT"}, "CONTROLLER has no protocol in"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(given, changed, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        quorum(given, **changed)
