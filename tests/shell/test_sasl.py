"""Listeners with SASL: PLAIN and SCRAM, alone and over TLS, between clients and brokers and among brokers."""

import socket
import struct
import time
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.shell.logins import log_in
from tests.shell.test_tls import Authority, port_of, records_through
from tests.waiting import wait_for
from tidelog.config.broker import BrokerConfig
from tidelog.errors import ErrorCode, InvalidOption
from tidelog.testing import Cluster
from tidelog.wire.codec import decode_response, encode_request
from tidelog.wire.messages.cluster.client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from tidelog.wire.messages.cluster.features import ApiVersionsRequest
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.topics.metadata import MetadataRequest

LOGIN = "org.apache.kafka.common.security.{0}.{1}LoginModule required {2};"
PLAIN = LOGIN.format(
    "plain", "Plain", 'username="brokers" password="b secret" user_brokers="b secret" user_alice="wonder land"'
)
SCRAM = LOGIN.format("scram", "Scram", "")
WANTS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
}


def client(port, mechanism="PLAIN", user="alice", password="wonder land", protocol="SASL_PLAINTEXT", **more):
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        **more,
    }


@pytest.fixture(scope="module")
def broker():
    with Cluster(brokers=1, options=WANTS) as cluster:
        yield cluster.brokers[0]


@pytest.fixture
def port(broker):
    return port_of(broker, "SASL_PLAINTEXT")


def add_user(broker, user, password, mechanism=ScramMechanism.SCRAM_SHA_512, iterations=4096):
    admin = AdminClient({"bootstrap.servers": broker.address})
    added = UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, iterations), password.encode())
    admin.alter_user_scram_credentials([added])[user].result(30)
    wait_for(lambda: user in admin.describe_user_scram_credentials().result(30), f"{user} is known")
    return admin


def test_plain_and_scram_let_users_in_and_nobody_else(broker, port):
    assert records_through(client(port), "of-alice", count=20)
    add_user(broker, "bob", "builder")
    assert records_through(client(port, "SCRAM-SHA-512", "bob", "builder"), "of-bob", count=20)
    refuse_wrong_logins(port)


def refuse_wrong_logins(port):
    """On connections without librdkafka, which tries again for as long as its caller waits."""
    for mechanism, user, password in (
        ("PLAIN", "alice", "wrong"),
        ("PLAIN", "nobody", "wonder land"),
        ("SCRAM-SHA-512", "bob", "wrong"),
        ("SCRAM-SHA-512", "nobody", "builder"),
        ("SCRAM-SHA-256", "bob", "builder"),
    ):
        with Wire(port) as wire:
            assert log_in(wire, user, password, mechanism).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert wire.is_closed()


def test_scram_users_are_altered_described_and_deleted(broker, port):
    admin = add_user(broker, "carol, her=own", "one", ScramMechanism.SCRAM_SHA_256, iterations=8192)
    user = "carol, her=own"
    found = admin.describe_user_scram_credentials([user])[user].result(30)
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    assert AdminClient(client(port, "SCRAM-SHA-256", user, "one")).list_topics(timeout=20).brokers
    add_user(broker, user, "two", ScramMechanism.SCRAM_SHA_256)

    def only_two_works():
        try:
            AdminClient(client(port, "SCRAM-SHA-256", user, "two")).list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    wait_for(only_two_works, "the new password")
    deletion = UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([deletion])[user].result(30)
    wait_for(lambda: user not in admin.describe_user_scram_credentials().result(30), "the user is gone")
    with pytest.raises(KafkaException, match="does not exist"):
        admin.alter_user_scram_credentials([deletion])[user].result(30)
    few = UserScramCredentialUpsertion("dan", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 100), b"x")
    with pytest.raises(KafkaException, match="Too few iterations"):
        admin.alter_user_scram_credentials([few])["dan"].result(30)


def test_brokers_log_in_to_each_other_over_tls(tmp_path):
    authority = Authority(tmp_path)
    options = authority.options(security_inter_broker_protocol="SASL_SSL") | {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": PLAIN,
        "listener.name.replication.plain.sasl.jaas.config": PLAIN,
    }
    with Cluster(brokers=2, options=options) as cluster:
        cluster.create_topic("t", replicas=2, min_insync_replicas=2)
        secured = client(
            port_of(cluster.brokers[0], "SASL_SSL"), protocol="SASL_SSL", **{"ssl.ca.location": str(authority.trusted)}
        )
        assert records_through(secured, "t", count=50)
        assert not [kind for each in cluster.brokers for _, kind, _ in each.logger.lines if kind == "peer.login_failed"]


def test_a_client_cannot_log_in_where_brokers_do():
    """Users of SCRAM are those of all listeners, and on this one the controller's requests are served."""
    options = {
        **WANTS,
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.replication.plain.sasl.jaas.config": PLAIN,
    }
    with Cluster(brokers=1, options=options) as cluster, Wire(cluster.brokers[0].brokers_port) as wire:
        answer = wire.ask(17, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
        assert answer.mechanisms == ["PLAIN"]
        assert wire.is_closed()
    opened = {**options, "listener.name.replication.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
    opened["listener.name.replication.scram-sha-512.sasl.jaas.config"] = SCRAM
    with Cluster(brokers=1, options=opened) as cluster, Wire(cluster.brokers[0].brokers_port) as wire:
        assert wire.ask(17, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512")).error_code == 0


# What goes over the wire.


class Wire:
    """One connection, request by request."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def ask(self, key, version, request):
        self.sock.sendall(b"".join(bytes(part) for part in encode_request(key, version, 7, "wire", request)))
        return decode_response(key, version, memoryview(self.frame()))[1]

    def frame(self):
        (length,) = struct.unpack(">i", self.read(4))
        return self.read(length)

    def read(self, count):
        found = b""
        while len(found) < count:
            part = self.sock.recv(count - len(found))
            if not part:
                raise ConnectionResetError("closed")
            found += part
        return found

    def is_closed(self):
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True


TOKEN = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder land")


def test_only_three_requests_are_served_before_a_login(port):
    with Wire(port) as wire:
        assert wire.ask(18, 0, ApiVersionsRequest()).api_keys
        with pytest.raises(ConnectionResetError):
            wire.ask(18, 0, ApiVersionsRequest())
    for key, version, request in ((3, 9, MetadataRequest()), (36, 2, TOKEN)):
        with Wire(port) as wire:
            if key == 36:
                assert wire.ask(key, version, request).error_code == ErrorCode.ILLEGAL_SASL_STATE
                assert wire.is_closed()
            else:
                with pytest.raises(ConnectionResetError):
                    wire.ask(key, version, request)
    with Wire(port) as wire:
        wire.sock.sendall(struct.pack(">i", 524_289) + bytes(100))
        assert wire.is_closed()


def test_a_login_has_an_end(monkeypatch):
    """Also for a client that goes on and on, and not for one that has logged in."""
    monkeypatch.setattr("tidelog.shell.connections.traffic.AUTHENTICATION_S", 1.0)
    with Cluster(brokers=1, options=WANTS) as cluster:
        broker = cluster.brokers[0]
        port = port_of(broker, "SASL_PLAINTEXT")
        with Wire(port) as slow, Wire(port) as fine:
            fine.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            assert fine.ask(36, 2, TOKEN).error_code == 0
            with suppress(OSError):
                for _ in range(100):
                    slow.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
                    time.sleep(0.05)
            assert slow.is_closed()
            assert fine.ask(3, 9, MetadataRequest()).brokers
        assert broker.wait_for_line("connection.authentication_failed", reason="no login in time")


def allocated(broker):
    readers = [each.reader for each in list(broker._hosted.server._traffic.connections.values())]
    return [len(each._own) for each in readers if each._own is not None]


def test_a_length_alone_takes_little_memory_before_a_login(broker, port):
    wires = [Wire(port) for _ in range(5)]
    try:
        for wire in wires:
            wire.sock.sendall(struct.pack(">i", 524_288) + b"x")
        wait_for(lambda: len(allocated(broker)) == 5, "the lengths", 10)
        assert max(allocated(broker)) <= 100_000
    finally:
        for wire in wires:
            wire.sock.close()
    with Wire(port) as wire:  # a long frame is taken nevertheless
        wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        answer = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + b"x" * 400_000))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_refusal_comes_late_names_no_cause_and_ends_the_connection(broker, port):
    add_user(broker, "erin", "secret")
    refusals = set()
    for token in (b"\0alice\0wrong", b"\0nobody\0wrong"):
        with Wire(port) as wire:
            assert wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN")).error_code == 0
            began = time.monotonic()
            answer = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=token))
            assert time.monotonic() - began >= 0.09
            refusals.add((answer.error_code, answer.error_message))
            assert wire.is_closed()
    assert refusals == {(58, "Authentication failed: Invalid username or password")}
    steps = {}
    for user in ("erin", "nobody"):
        with Wire(port) as wire:
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
            first = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=f"n,,n={user},r=abc".encode()))
            assert first.error_code == 0
            assert bytes(first.auth_bytes).startswith(b"r=abc")
            nonce = bytes(first.auth_bytes).split(b",")[0]
            proof = b"c=biws," + nonce + b",p=" + b"A" * 86 + b"=="
            last = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=proof))
            steps[user] = last.error_code, last.error_message
            assert wire.is_closed()
    assert steps["erin"] == steps["nobody"]
    assert steps["erin"][0] == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_change_of_quotas_leaves_credentials_alone(broker, port):
    add_user(broker, "gus", "secret")
    entity = [EntityData(entity_type="user", entity_name="gus")]
    removal = EntryData(entity=entity, ops=[OpData(key="SCRAM-SHA-512", value=0.0, remove=True)])
    with Wire(broker.port) as wire:
        wire.ask(49, 1, AlterClientQuotasRequest(entries=[removal]))
    time.sleep(0.3)
    assert AdminClient(client(port, "SCRAM-SHA-512", "gus", "secret")).list_topics(timeout=5).brokers


def test_a_user_who_does_not_exist_has_one_salt_in_the_whole_cluster(tmp_path):
    """A user who exists has; else two brokers or a restart would tell."""

    def salt(broker):
        with Wire(port_of(broker, "SASL_PLAINTEXT")) as wire:
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512"))
            first = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=b"n,,n=nobody,r=abc"))
            return bytes(first.auth_bytes).split(b",")[1]

    with Cluster(brokers=2, options=WANTS, folder=tmp_path) as cluster:
        found = {salt(broker) for broker in cluster.brokers}
        cluster.kill(0)
        cluster.start(0)
        assert {salt(cluster.brokers[0])} == found


def test_an_unknown_mechanism_is_answered_with_those_that_there_are(port):
    with Wire(port) as wire:
        answer = wire.ask(17, 1, SaslHandshakeRequest(mechanism="GSSAPI"))
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert wire.is_closed()


def test_tokens_come_bare_after_the_first_version_of_the_handshake(port):
    with Wire(port) as wire:
        wire.ask(17, 0, SaslHandshakeRequest(mechanism="PLAIN"))
        token = bytes(TOKEN.auth_bytes)
        wire.sock.sendall(struct.pack(">i", len(token)) + token)
        assert wire.frame() == b""
        assert wire.ask(3, 9, MetadataRequest()).brokers
        assert wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert wire.ask(3, 9, MetadataRequest()).brokers


def test_a_bare_token_that_is_refused_costs_the_delay_too(port):
    with Wire(port) as wire:
        wire.ask(17, 0, SaslHandshakeRequest(mechanism="PLAIN"))
        token = b"\0alice\0wrong"
        began = time.monotonic()
        wire.sock.sendall(struct.pack(">i", len(token)) + token + struct.pack(">i", 10) + bytes(10))
        assert wire.is_closed()
        assert time.monotonic() - began >= 0.09


def test_a_session_ends_unless_the_client_authenticates_again():
    options = {**WANTS, "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "1000"}
    with Cluster(brokers=1, options=options) as cluster:
        port = port_of(cluster.brokers[0], "SASL_PLAINTEXT")
        with Wire(port) as wire, Wire(port) as other:
            for each in (wire, other):
                each.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
                assert each.ask(36, 2, TOKEN).session_lifetime_ms == 1000
            assert wire.ask(3, 9, MetadataRequest()).brokers
            time.sleep(1.1)
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            assert wire.ask(36, 2, TOKEN).error_code == 0
            assert wire.ask(3, 9, MetadataRequest()).brokers
            with pytest.raises(ConnectionResetError):
                other.ask(3, 9, MetadataRequest())
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            changed = wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=b"\0brokers\0b secret"))
            assert changed.error_message == (
                "Cannot change principals during re-authentication from User.alice: User.brokers"
            )


def test_tokens_are_short_when_a_client_authenticates_again():
    options = {**WANTS, "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "600000"}
    long = SaslAuthenticateRequest(auth_bytes=bytes(524_289))
    with Cluster(brokers=1, options=options) as cluster, Wire(port_of(cluster.brokers[0], "SASL_PLAINTEXT")) as wire:
        for _ in range(2):
            wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            assert wire.ask(36, 2, TOKEN).error_code == 0
            assert wire.ask(36, 2, long).error_code == ErrorCode.ILLEGAL_SASL_STATE, "others may be long again"
        wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        wire.sock.sendall(struct.pack(">i", 524_289))
        assert wire.is_closed()


def test_a_client_cannot_change_logins(broker, port):
    """CVE-2023-25194: JndiLoginModule through AlterConfigs."""
    evil = 'com.sun.security.auth.module.JndiLoginModule required user.provider.url="ldap://127.0.0.1:1/x";'
    name = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    for broker_id in ("0", ""):
        change = AlterableConfig(name=name, config_operation=0, value=evil)
        resource = AlterConfigsResource(resource_type=4, resource_name=broker_id, configs=[change])
        with Wire(broker.port) as wire:
            (answer,) = wire.ask(44, 1, IncrementalAlterConfigsRequest(resources=[resource])).responses
            assert answer.error_code == ErrorCode.INVALID_REQUEST
            assert "ldap" not in answer.error_message
    with Wire(port) as wire:
        wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert wire.ask(36, 2, TOKEN).error_code == 0
    refused = {**WANTS, name: evil}
    with pytest.raises(InvalidOption, match="JndiLoginModule is not supported"), Cluster(brokers=1, options=refused):
        pass


def test_a_plain_listener_refuses_a_login(broker):
    with Wire(broker.port) as wire:
        assert wire.ask(17, 1, SaslHandshakeRequest(mechanism="PLAIN")).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert wire.ask(36, 2, TOKEN).error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert wire.ask(3, 9, MetadataRequest()).brokers


def test_users_survive_a_crash(tmp_path):
    with Cluster(brokers=1, options=WANTS, folder=tmp_path) as cluster:
        broker = cluster.brokers[0]
        add_user(broker, "frank", "zappa")
        cluster.kill(0)
        cluster.start(0)
        port = port_of(broker, "SASL_PLAINTEXT")
        assert AdminClient(client(port, "SCRAM-SHA-512", "frank", "zappa")).list_topics(timeout=20).brokers


def test_no_secret_is_logged(broker, port):
    add_user(broker, "bob", "builder")
    with Wire(port) as wire:
        assert log_in(wire, "bob", "builder").error_code == 0
    refuse_wrong_logins(port)
    lines = repr(list(broker.logger.lines))
    assert "connection.authentication_failed" in lines
    assert not [secret for secret in ("wonder land", "b secret", "builder", "zappa") if secret in lines]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"sasl.enabled.mechanisms": "GSSAPI"},
            r"sasl.enabled.mechanisms: GSSAPI is not supported; expected PLAIN, SCRAM",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN,scram-sha-256"},
            "sasl.enabled.mechanisms: scram-sha-256 is not supported",
        ),
        (
            {"listener.name.sasl_plaintext.plain.sasl.jaas.config": "nonsense"},
            r"plain.sasl.jaas.config is not a JAAS login",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": PLAIN,
            },
            "scram-sha-512.sasl.jaas.config: PlainLoginModule is not supported; SASL/SCRAM-SHA-512 needs ScramLoginModule",
        ),
        (
            {
                "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            },
            "scram-sha-256.sasl.jaas.config is missing: SASL/SCRAM-SHA-256 needs a JAAS login",
        ),
        (
            {"security.inter.broker.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": PLAIN},
            r"broker.protocol: GSSAPI is not",
        ),
    ],
)
def test_options_that_cannot_work_keep_the_broker_from_starting(changes, sentence):
    BrokerConfig.validate({**WANTS, **changes})
    with pytest.raises(InvalidOption, match=sentence), Cluster(brokers=1, options={**WANTS, **changes}):
        pass
