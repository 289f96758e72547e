"""What keeps a node of a metadata quorum from starting, in one sentence, and what it finds in its folder."""

import pytest

from tests.ports import free_ports
from tidelog.config import listeners
from tidelog.config.broker import BrokerConfig
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.errors import InvalidOption
from tidelog.log.checkpoints import MetaProperties
from tidelog.quorum.formatting import METADATA_FOLDER
from tidelog.shell.broker import run_broker
from tidelog.shell.quorum import quorum_folders
from tidelog.shell.quorum.quorum_folders import NotFormatted
from tidelog.shell.quorum.quorum_setup import QuorumNode
from tidelog.shell.store.store_address import address_of


def options(folder, **more):
    port = free_ports(1)[0]
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{port},2@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "log.dirs": str(folder),
    }
    return BrokerConfig({**given, **{name.replace("_", "."): value for name, value in more.items()}})


def test_an_unformatted_folder_is_one_sentence(tmp_path, capfd):
    assert run_broker(options(tmp_path)) == 1
    expected = f"Log directory {tmp_path} is not formatted: run `tidelog storage format` with the cluster's ID.\n"
    assert capfd.readouterr().err == expected
    assert not (tmp_path / "meta.properties").exists()


def test_the_folder_of_another_node_is_one_sentence(tmp_path, capfd):
    quorum_folders.prepare({0: tmp_path}, {0: "127.0.0.1"})
    assert run_broker(options(tmp_path)) == 1
    assert capfd.readouterr().err == f"Log folder {tmp_path} belongs to broker 0, not to 1.\n"


def test_a_lone_voter_has_a_cluster_of_its_own(tmp_path):
    node = QuorumNode(options(tmp_path, controller_quorum_voters="1@127.0.0.1:9093"))
    setup = node.setup(MetaProperties(node.cluster_id, 1, b"d" * 16))
    assert (setup.voters.ids, setup.voters.directories, setup.directory) == ((1,), False, b"d" * 16)


def test_without_voters_in_options_or_folder_the_bootstrap_servers_are_asked(tmp_path):
    config = options(tmp_path, controller_quorum_voters="")
    own = config.listeners[1].removeprefix("CONTROLLER://")
    given = {**config.properties, "controller.quorum.bootstrap.servers": f"{own},127.0.0.2:9093"}
    setup = QuorumNode(BrokerConfig(given)).setup(MetaProperties("c", 1, b"d" * 16))
    assert (len(setup.voters), setup.endpoints) == (0, {})
    assert [(each.host, each.port) for each in setup.bootstrap] == [("127.0.0.2", 9093)]


def test_voters_come_from_the_folder_with_their_addresses(tmp_path):
    folders = {number: tmp_path / f"broker-{number}" for number in range(4)}
    voters = quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))
    given = {**quorum_folders.options_of(2, voters), "node.id": "2", "log.dirs": str(folders[2])}
    given["listeners"] = ",".join(["PLAINTEXT://127.0.0.1:0", *quorum_folders.listeners_of(2, voters)])
    node = QuorumNode(BrokerConfig(given))
    setup = node.setup(MetaProperties(node.cluster_id, 2, voters[2].directory_id))
    assert [(key.id, key.directory) for key in setup.voters] == [(v.node_id, v.directory_id) for v in voters]
    assert {node: place.port for node, place in setup.endpoints.items()} == {v.node_id: v.port for v in voters}
    assert [each.port for each in setup.own_endpoints] == [setup.endpoints[2].port]
    moved = QuorumNode(BrokerConfig({**given, "advertised.listeners": "PLAINTEXT://h:9092,CONTROLLER://h:7"}))
    assert [each.port for each in moved.setup(MetaProperties("c", 2, b"d" * 16)).own_endpoints] == [7]
    everywhere = given["listeners"].replace("CONTROLLER://127.0.0.1", "CONTROLLER://0.0.0.0")
    silent = QuorumNode(BrokerConfig({**given, "listeners": everywhere}))
    assert silent.setup(MetaProperties("c", 2, b"d" * 16)).own_endpoints == []
    assert quorum_folders.options_of(3, voters)["process.roles"] == "broker"


def test_folders_are_formatted_once(tmp_path):
    folders = {number: tmp_path / f"broker-{number}" for number in range(3)}
    voters = quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))
    assert quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1")) == voters
    assert quorum_folders.is_formatted(tmp_path)


def test_a_lost_folder_of_a_voter_is_not_formatted_again(tmp_path):
    folders = {number: tmp_path / f"broker-{number}" for number in range(3)}
    quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))
    folders[1].rename(tmp_path / "elsewhere")
    with pytest.raises(NotFormatted, match="broker-1 of a voter of the metadata quorum is missing"):
        quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))
    assert not folders[1].exists()


def test_a_damaged_snapshot_of_the_voters_is_one_sentence(tmp_path):
    folders = {0: tmp_path / "broker-0"}
    quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))
    (file,) = (folders[0] / METADATA_FOLDER).iterdir()
    content = bytearray(file.read_bytes())
    content[70] ^= 1
    file.write_bytes(content)
    with pytest.raises(NotFormatted, match="The controllers of this node are not known"):
        quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"))


def test_a_controller_that_is_no_broker_opens_the_listeners_of_controllers_only(tmp_path):
    given = {"process_roles": "controller", "listeners": "CONTROLLER://127.0.0.1:9093"}
    config = options(tmp_path, **given)
    assert [each.listener for each in listeners.opened(config)] == ["CONTROLLER"]
    assert listeners.among_nodes(config) == {"REPLICATION": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    secured = options(
        tmp_path,
        **given,
        inter_broker_listener_name="INSIDE",
        security_inter_broker_protocol="SSL",
        listener_security_protocol_map="INSIDE:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
    )
    assert listeners.among_nodes(secured) == {
        "REPLICATION": "SSL",
        "INSIDE": "SASL_SSL",
        "CONTROLLER": "SASL_PLAINTEXT",
    }


PLAIN = {"sasl.mechanism.controller.protocol": "PLAIN", "sasl.enabled.mechanisms": "PLAIN"}
MAP = "listener.security.protocol.map"
ONLY_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_node="p";'


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({MAP: "PLAINTEXT:PLAINTEXT"}, "CONTROLLER has no protocol in listener.security.protocol.map; add CONTROLLER:"),
        ({MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}, "ssl.keystore.location: a TLS listener needs a key store"),
        (
            {MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"},
            "sasl.mechanism.controller.protocol: GSSAPI is not supported",
        ),
        (
            {MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT", **PLAIN},
            "plain.sasl.jaas.config is missing: SASL/PLAIN needs a JAAS login",
        ),
        (
            {
                MAP: "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
                **PLAIN,
                "listener.name.controller.plain.sasl.jaas.config": ONLY_USERS,
            },
            "with which nodes log in to each other: username is missing",
        ),
        (
            {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"},
            "super.users: brokers connect to each other as User:ANONYMOUS (PLAINTEXT), which may not do that; add it to",
        ),
    ],
)
def test_security_that_cannot_work_is_one_sentence(tmp_path, capfd, given, problem):
    config = options(tmp_path)
    formatted = quorum_folders.prepare({1: tmp_path}, {1: "127.0.0.1"})
    assert formatted
    assert run_broker(BrokerConfig({**config.properties, **given})) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert problem in line


def test_there_is_no_store_to_open(tmp_path):
    with pytest.raises(InvalidOption, match="the metadata is in a quorum of controllers"):
        address_of(options(tmp_path))


def test_another_store_beside_the_roles_wins(tmp_path):
    config = options(tmp_path, metadata_store=f"sqlite:{tmp_path}/x")
    assert not config.has_quorum
    assert "process.roles" in BrokerConfig.ignored(config.properties)
    assert options(tmp_path).has_quorum
    assert "process.roles" not in BrokerConfig.ignored(options(tmp_path).properties)
