"""No secret in anything that a broker writes or answers: after good and bad logins, changes of options, requests that are
not valid, a kill and a restart, with all log levels at TRACE."""

import json
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64encode
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.ports import free_ports
from tests.waiting import wait_for
from tidelog.client import properties as client_properties
from tidelog.client.admin import ANY
from tidelog.client.options import AdminOptions
from tidelog.config import properties
from tidelog.errors import ApiError
from tidelog.shell.certificates import Authority
from tidelog.shell.transport import Admin
from tidelog.wire.codec import encode_request
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.configs.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tidelog.wire.messages.security.delegation_tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
)
from tidelog.wire.messages.security.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from tidelog.wire.messages.security.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

PATIENCE_S = 120
TOPIC, BROKER, LOGGER = 2, 4, 8
SECRETS = {
    name: f"secret-of-{name}-{number:04}"
    for number, name in enumerate(
        (
            "alice",
            "brokers",
            "wrong",
            "scram",
            "key",
            "tokens",
            "dynamic",
            "invalid",
            "topic",
            "unknown",
            "jaas",
            "frame",
            "salted",
        )
    )
}
LOGIN = "org.apache.kafka.common.security.{}.{}LoginModule required {};"


class Everything(dict):
    """What was written or answered, by its place."""

    def add(self, place, content):
        self[place] = self.get(place, b"") + (content if isinstance(content, bytes) else str(content).encode())

    def found(self, secrets):
        """(secret, place) of each secret that is somewhere, as it is, in base64, or in hex."""
        forms = {
            name: (text, b64encode(text), text.hex().encode())
            for name, text in (
                (name, text if isinstance(text, bytes) else text.encode()) for name, text in secrets.items()
            )
        }
        return [
            (name, place)
            for place, content in self.items()
            for name, each in forms.items()
            if any(form in content for form in each)
        ]


def certificates(folder):
    """The authority's certificate, and a store whose key is encrypted."""
    authority = Authority.new()
    (folder / "ca.pem").write_bytes(authority.certificate_pem)
    store = authority.issue("broker", ["127.0.0.1"])
    end = store.index(b"-----BEGIN CERTIFICATE")
    key = load_pem_private_key(store[:end], None)
    encryption = BestAvailableEncryption(SECRETS["key"].encode())
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    (folder / "broker.pem").write_bytes(encrypted + store[end:])


def broker_file(folder, port, metrics_port):
    users = f'username="brokers" password="{SECRETS["brokers"]}" user_brokers="{SECRETS["brokers"]}"'
    plain = LOGIN.format("plain", "Plain", f'{users} user_alice="{SECRETS["alice"]}"')
    scram = LOGIN.format("scram", "Scram", "")
    file = folder / "server.properties"
    options = {
        "node.id": "0",
        "listeners": f"SASL_SSL://127.0.0.1:{port}",
        "log.dirs": str(folder / "data"),
        "metrics.listener": f"127.0.0.1:{metrics_port}",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.key.password": SECRETS["key"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": scram,
        "listener.name.replication.plain.sasl.jaas.config": plain,
        "delegation.token.secret.key": SECRETS["tokens"],
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice;User:brokers",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    file.write_text(properties.text(options))
    return file


@contextmanager
def broker(file, log, everything):
    """A process that serves. Its command line is that of a process list."""
    seen = log.stat().st_size if log.exists() else 0
    with (
        log.open("ab") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", "tidelog.cli.main", "broker", str(file)], stdout=stderr, stderr=stderr
        ) as process,
    ):
        try:
            wait_for(lambda: b"controller.elected" in log.read_bytes()[seen:], "the broker to serve", PATIENCE_S)
            everything.add("cmdline", Path(f"/proc/{process.pid}/cmdline").read_bytes())
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.wait(PATIENCE_S)


def librdkafka(folder, port, mechanism, user, password):
    return AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(folder / "ca.pem"),
            "log_level": 0,
        }
    )


def client_file(folder):
    file = folder / "client.properties"
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": client_properties.login("PLAIN", "alice", SECRETS["alice"]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }
    file.write_text(properties.text(options))
    return file


def altered(kind, name, **options):
    configs = [
        AlterableConfig(name=key.replace("__", "-").replace("_", "."), config_operation=0, value=value)
        for key, value in options.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )


def administer(admin, everything):
    """Every kind of change that carries a secret, and every answer that could."""
    levels = altered(LOGGER, "0", root="TRACE")
    requests = [
        levels,
        altered(BROKER, "0", **{"listener.name.other.ssl.keystore.password": SECRETS["dynamic"]}),
        altered(
            BROKER,
            "0",
            **{
                "listener.name.sasl_ssl.ssl.keystore.location": "/no/file",
                "listener.name.sasl_ssl.ssl.key.password": SECRETS["invalid"],
            },
        ),
        altered(
            BROKER,
            "0",
            **{
                "listener.name.sasl_ssl.plain.sasl.jaas.config": LOGIN.format(
                    "plain", "Plain", f'user_x="{SECRETS["jaas"]}"'
                )
            },
        ),
        altered(BROKER, "0", **{"log.retention.ms": "not a number", "my.own.password": SECRETS["unknown"]}),
        altered(BROKER, "", **{"my.own.password": SECRETS["unknown"]}),
        altered(TOPIC, "t", **{"sasl.jaas.config": SECRETS["topic"]}),
        AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(
                    name="dan", mechanism=2, iterations=4096, salt=b"salt", salted_password=SECRETS["salted"].encode()
                )
            ]
        ),
        ExpireDelegationTokenRequest(hmac=SECRETS["frame"].encode(), expiry_time_period_ms=-1),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
                for kind, name in ((BROKER, "0"), (BROKER, ""), (TOPIC, "t"), (LOGGER, "0"))
            ],
            include_synonyms=True,
            include_documentation=True,
        ),
        DescribeUserScramCredentialsRequest(users=None),
    ]
    for request in requests:
        try:
            everything.add(f"answer to {type(request).__name__}", repr(admin.ask(request, ANY)))
        except ApiError as error:
            everything.add(f"answer to {type(request).__name__}", repr(error))


def send_what_is_not_valid(folder, port):
    """Frames that end in the middle, with a secret in each, before a login and after."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))

    def frame(key, version, request, cut=0):
        parts = b"".join(bytes(part) for part in encode_request(key, version, 1, "hostile", request))
        return (len(parts) - 4 - cut).to_bytes(4) + parts[4 : len(parts) - cut]

    change = altered(BROKER, "0", **{"ssl.key.password": SECRETS["frame"]})
    token = f"\0alice\0{SECRETS['alice']}".encode()
    login = [
        frame(17, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        frame(36, 2, SaslAuthenticateRequest(auth_bytes=token)),
    ]
    unknown = b"\0\x2c\x7f\xff" + SECRETS["frame"].encode()  # a version that does not exist
    unknown = len(unknown).to_bytes(4) + unknown
    wrong = f"n,,n=alice,r={SECRETS['frame']}".encode()
    for frames in (
        [frame(44, 1, change)],
        [login[0], frame(36, 2, SaslAuthenticateRequest(auth_bytes=token), cut=3)],
        [login[0], frame(36, 2, SaslAuthenticateRequest(auth_bytes=SECRETS["frame"].encode()))],
        [frame(17, 1, SaslHandshakeRequest(mechanism=SECRETS["frame"]))],
        [
            frame(17, 1, SaslHandshakeRequest(mechanism="SCRAM-SHA-512")),
            frame(36, 2, SaslAuthenticateRequest(auth_bytes=wrong + b"\xff")),
        ],
        [*login, frame(44, 1, change, cut=3)],
        [*login, b"\x7f\xff\xff\xff" + SECRETS["frame"].encode()],
        [*login, unknown],
    ):
        with (
            context.wrap_socket(socket.create_connection(("127.0.0.1", port), 60), server_hostname="127.0.0.1") as sock,
            suppress(OSError),
        ):
            for each in frames:
                sock.sendall(each)
                if each in login:
                    sock.recv(65536)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass


def commands(port, file, everything):
    """What commands print, and what a process list shows of one."""
    reached = ("--bootstrap-server", f"127.0.0.1:{port}", "--command-config", str(file))
    for words in (
        ("status",),
        ("explain", "cluster"),
        ("configs", "--describe", "--broker", "0", "--all"),
        ("configs", "--describe", "--entity-type", "users", "--all"),
        ("topics", "--describe"),
    ):
        command = [sys.executable, "-m", "tidelog.cli.main", *words, *reached]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            with suppress(OSError):
                everything.add("cmdline", Path(f"/proc/{process.pid}/cmdline").read_bytes())
            everything.add(f"tidelog {words[0]}", process.communicate(timeout=PATIENCE_S)[0])


def test_no_secret_is_written_or_answered(tmp_path):
    port, metrics_port = free_ports(2)
    certificates(tmp_path)
    file, client, log = broker_file(tmp_path, port, metrics_port), client_file(tmp_path), tmp_path / "broker.log"
    everything, secrets = Everything(), dict(SECRETS)
    with broker(file, log, everything) as process:
        alice = librdkafka(tmp_path, port, "PLAIN", "alice", SECRETS["alice"])
        added = UserScramCredentialUpsertion(
            "bob", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), SECRETS["scram"].encode()
        )
        alice.alter_user_scram_credentials([added])["bob"].result(60)
        assert librdkafka(tmp_path, port, "SCRAM-SHA-512", "bob", SECRETS["scram"]).list_topics(timeout=60).brokers
        options = client_properties.keywords(AdminOptions, client_properties.read(client.read_text()))
        with Admin(f"127.0.0.1:{port}", **options) as admin:
            administer(admin, everything)
            made = admin.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), ANY)
            secrets["hmac"] = bytes(made.hmac)
            assert len(secrets["hmac"]) == 64
            tokens = DescribeDelegationTokenRequest(owners=None)
            wait_for(lambda: admin.ask(tokens, ANY).tokens, "the token to be known")
            admin.ask(ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), ANY)
        for mechanism, user in (("PLAIN", "alice"), ("PLAIN", "nobody"), ("SCRAM-SHA-512", "bob")):
            with pytest.raises(KafkaException):
                librdkafka(tmp_path, port, mechanism, user, SECRETS["wrong"]).list_topics(timeout=1)
        send_what_is_not_valid(tmp_path, port)
        commands(port, client, everything)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=60) as page:
            everything.add("/metrics", page.read())
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with broker(file, log, everything):
        commands(port, client, everything)
    everything.add("broker.log", log.read_bytes())
    check_that_it_happened(everything)
    assert everything.found(secrets) == []
    # The metadata store has dynamic options as they are, but no password of a user.
    for stored in (tmp_path / "data-metadata").iterdir():
        everything.add(f"stored in {stored.name}", stored.read_bytes() if stored.is_file() else b"")
    logins = {name: secrets[name] for name in ("alice", "brokers", "wrong", "scram", "tokens", "salted", "hmac")}
    assert everything.found(logins) == []
    assert everything.found({"dynamic": SECRETS["dynamic"]}) != [], "the search finds what is there"


def check_that_it_happened(everything):
    """The run was what it claims to be: an empty log has no secrets either."""
    log = everything["broker.log"].decode()
    for kind in ("connection.authentication_failed", "audit.changed", "access.allowed", "connection.refused"):
        assert kind in log, kind
    for request in ("IncrementalAlterConfigs", "AlterUserScramCredentials", "CreateDelegationToken"):
        assert f"request={request} " in log, request
    assert "ssl.key.password" in everything["answer to DescribeConfigsRequest"].decode()
    assert b"kafka_" in everything["/metrics"]
    assert b"tidelog.cli.main\0broker" in everything["cmdline"]
    assert json.dumps("[hidden]")[1:-1] in log
