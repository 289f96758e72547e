"""A metadata quorum whose nodes use TLS and SASL/SCRAM on every listener, and nodes that it must not let in.

The nodes' own user is one of `storage format --add-scram`: they log in with it before there is any metadata.
"""

import os

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.shell.authority import Authority, port_of
from tests.waiting import PATIENCE_S, wait_for
from tidelog.cli.main import run as command
from tidelog.config.families.security_options import STANDARD_AUTHORIZER
from tidelog.security import added_users, scram
from tidelog.shell.quorum import quorum_folders
from tidelog.testing.broker import Broker
from tidelog.testing.edge import Wire

NODES = (0, 1, 2)
STRANGER = 7
LISTENERS = ("sasl_ssl", "replication", "controller")
MECHANISM = "SCRAM-SHA-512"


def login(user, password):
    text = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{user}" password="{password}";'
    return {f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config": text for name in LISTENERS}


def options(authority):
    return {
        **{name: text for name, text in authority.options().items() if name != "listeners"},
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "sasl.mechanism.controller.protocol": MECHANISM,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node",
        "default.replication.factor": "3",
        **login("node", "right"),
    }


class Nodes:
    """Three nodes, and others that are made later; a stranger is only a broker."""

    def __init__(self, folder, authority):
        self.authority, self._folder = authority, folder
        users = [
            added_users.with_password(n, scram.MECHANISMS[MECHANISM], "right", os.urandom) for n in ("node", "eve")
        ]
        self._users = users
        folders = self._folders = {node: folder / f"node-{node}" for node in (*NODES, STRANGER)}
        self.voters = quorum_folders.prepare(folders, dict.fromkeys(folders, "127.0.0.1"), users)
        self.all = {node: self._node(node, options(authority)) for node in NODES}

    def _node(self, node, given):
        broker = Broker(node, self._folders[node], given, protocol="SASL_SSL", wire=Wire(node, lambda _: -1, spared=()))
        broker.join_quorum(self.voters)
        return broker

    def stranger(self, **more):
        given = {**options(self.authority), **{name.replace("__", "."): text for name, text in more.items()}}
        return self._node(STRANGER, given)

    def start(self, broker):
        problem = broker.start().get(timeout=PATIENCE_S)
        assert problem is None, problem
        return broker

    @property
    def controller(self):
        """Who leads, once all that run agree."""

        def found():
            running = [each for each in self.all.values() if each.is_running]
            views = {each.call(lambda hosted: hosted.node.broker.controller.leader_id) for each in running}
            return views if len(views) == 1 and views <= {each.id for each in running} else None

        (leader,) = wait_for(found, "a controller that all know")
        return self.all[leader]

    def create(self, topic):
        running = ",".join(each.address for each in self.all.values() if each.is_running)
        given = {
            "bootstrap.servers": running,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": MECHANISM,
            "sasl.username": "node",
            "sasl.password": "right",
            "ssl.ca.location": str(self.authority.trusted),
        }
        admin = AdminClient(given)
        admin.create_topics([NewTopic(topic, 1, 2)])[topic].result(PATIENCE_S)

    def line(self, kind, **fields):
        """A node that runs logs such a line."""

        def is_there():
            return any(
                found == kind and all(text in str(line.get(name)) for name, text in fields.items())
                for each in self.all.values()
                for _, found, line in list(each.logger.lines)
            )

        wait_for(is_there, f"{kind} {fields}")

    def end(self):
        for each in self.all.values():
            each.kill()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    cluster = Nodes(tmp_path_factory.mktemp("nodes"), Authority(tmp_path_factory.mktemp("authority")))
    try:
        for began in [each.start() for each in cluster.all.values()]:
            assert began.get(timeout=PATIENCE_S) is None
        yield cluster
    finally:
        cluster.end()


def test_the_leader_is_killed_and_comes_back(nodes):
    first = nodes.controller
    nodes.create("before")
    first.kill()
    assert nodes.controller is not first
    nodes.create("meanwhile")
    nodes.start(first)
    assert nodes.controller is not first
    wait_for(
        lambda: first.call(lambda hosted: "meanwhile" in hosted.node.broker.image.topics), "the node knows the topic"
    )


def test_a_wrong_password_is_refused_and_logged_on_both_sides(nodes):
    stranger = nodes.stranger(**login("node", "wrong"))
    try:
        nodes.start(stranger)
        stranger.wait_for_line("peer.login_failed", reason="invalid credentials")
        nodes.line("connection.authentication_failed", mechanism=MECHANISM)
        assert stranger.call(lambda hosted: hosted.node.quorum.local.applied) == 0
    finally:
        stranger.kill()


def test_a_certificate_of_another_authority_is_refused_and_logged(nodes, tmp_path):
    other = Authority(tmp_path)
    trusted = tmp_path / "both.pem"  # it trusts itself and the others
    trusted.write_text(nodes.authority.trusted.read_text() + other.trusted.read_text())
    given = {"ssl__keystore__location": str(other.broker), "ssl__truststore__location": str(trusted)}
    stranger = nodes.stranger(**given)
    try:
        nodes.start(stranger)
        nodes.line("connection.handshake_failed", listener="CONTROLLER", reason="certificate")
        assert stranger.call(lambda hosted: hosted.node.quorum.local.applied) == 0
    finally:
        stranger.kill()


def test_a_user_without_rights_is_denied_and_logged_on_both_sides(nodes):
    stranger = nodes.stranger(super__users="User:eve", **login("eve", "right"))
    try:
        nodes.start(stranger)
        stranger.wait_for_line("quorum.denied", reason="super.users")
        nodes.line("access.denied", principal="User:eve", operation="CLUSTER_ACTION", request="Fetch")
        assert stranger.call(lambda hosted: hosted.node.quorum.local.applied) == 0
    finally:
        stranger.kill()


def test_commands_log_in_to_brokers_and_to_controllers(nodes, tmp_path, capsys):
    file = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": f'{module} required username="node" password="right";',
        **{name: text for name, text in nodes.authority.options().items() if name.startswith("ssl.")},
    }
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()), encoding="utf-8")
    leader = nodes.controller
    for place in (
        ("--bootstrap-server", leader.address),
        ("--bootstrap-controller", f"127.0.0.1:{port_of(leader, 'CONTROLLER')}"),
    ):
        assert command(["quorum", *place, "--command-config", str(file), "describe", "--status"]) == 0
        assert f"LeaderId:               {leader.id}" in capsys.readouterr().out
    assert command(["quorum", *place, "describe", "--status"]) == 1, "without a login"
