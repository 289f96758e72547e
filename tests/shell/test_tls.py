"""Listeners with TLS: who gets in, by which name, with which stores, and what slow or hostile handshakes cost."""

import json
import os
import re
import socket
import ssl
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from queue import Queue
from threading import Thread

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.shell.authority import (
    Authority,
    Recorder,
    config,
    connect,
    port_of,
    server_context,
    underscored,
)
from tests.waiting import wait_for
from tidelog.api.cluster.broker_report import facts
from tidelog.cli.main import run
from tidelog.errors import InvalidOption
from tidelog.shell.connections import tls
from tidelog.shell.connections.tls import ANONYMOUS
from tidelog.shell.connections.tls_listeners import TlsListeners
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.metrics_page import MetricsPage
from tidelog.slices import begun as answered
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


def records_through(options, topic, count=200, size=20_000):
    """Write and read back records of a few megabytes, more than one TLS record and one socket buffer hold."""
    values = [bytes([number % 251]) * size for number in range(count)]
    producer = Producer({**options, "linger.ms": 20})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**options, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        found = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += [message.value() for message in consumer.consume(count, 1.0)]
    finally:
        consumer.close()
    return found == values


def test_clients_and_brokers_use_tls_and_a_broker_needs_a_certificate(authority):
    options = authority.options(
        security_inter_broker_protocol="SSL", **{"listener.name.replication.ssl.client.auth": "required"}
    )
    with Cluster(brokers=2, options=options) as cluster:
        cluster.create_topic("t", replicas=2, min_insync_replicas=2)
        first = cluster.brokers[0]
        assert records_through(authority.client(port_of(first)), "t")
        with (
            connect(authority, first.brokers_port) as nobody,
            pytest.raises(ssl.SSLError, match="certificate required"),
        ):
            nobody.recv(1)  # TLS 1.3 tells the client after its handshake


def test_a_client_of_this_machine_has_a_small_send_buffer_with_tls(authority):
    """It shares the processors with the broker. Linux doubles what is requested."""
    with Cluster(brokers=1, options=authority.options()) as cluster:
        broker = cluster.brokers[0]
        with connect(authority, port_of(broker)), socket.create_connection(("127.0.0.1", broker.port)):

            def buffers(hosted):
                found = {each.listener: each.sock for each in hosted.server._traffic.connections.values()}
                return {name: getattr(sock, "_sock", sock) for name, sock in found.items()}

            wait_for(lambda: {"SSL", "PLAINTEXT"} <= set(on_loop(broker, buffers)), "both connections")
            socks = on_loop(broker, buffers)
            sizes = {name: sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for name, sock in socks.items()}
    assert sizes["SSL"] == 2 * 102_400
    assert sizes["PLAINTEXT"] > 2 * 102_400


def test_a_plain_client_and_another_authoritys_client_do_not_get_in(authority, tmp_path):
    other = Authority(tmp_path)
    with Cluster(brokers=1, options=authority.options(ssl_client_auth="required")) as cluster:
        broker = cluster.brokers[0]
        with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10) as plain:
            plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\0\xff\xff")
            with suppress(ConnectionResetError):
                assert b"\0\0\0\0" not in plain.recv(100), "an answer in plain text"
        stranger = authority.context()
        stranger.load_cert_chain(str(other.store("stranger")))
        sock = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10)
        with stranger.wrap_socket(sock, server_hostname="127.0.0.1") as refused, pytest.raises(ssl.SSLError):
            refused.recv(1)
        assert broker.wait_for_line("connection.handshake_failed", reason="certificate is not trusted")
        mine = AdminClient(authority.client(port_of(broker), authority.store("me")))
        assert mine.list_topics(timeout=10).brokers


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", "User:CN=alice,OU=Testing cert"),
        ("RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "User:ALICE"),
    ],
)
def test_a_principal_is_the_certificates_subject_by_the_mapping_rules(authority, rules, expected):
    store = authority.store("alice", "alice@example.org", common_name="alice")
    options = authority.options(ssl_client_auth="requested", ssl_principal_mapping_rules=rules)
    with Cluster(brokers=1, options=options) as cluster:
        broker = cluster.brokers[0]
        with connect(authority, port_of(broker), store), connect(authority, port_of(broker)):
            connections = broker._hosted.node.dispatch._connections
            wait_for(lambda: sum(each.listener == "SSL" for each in connections.values()) == 2, "two connections")
            found = {each.principal for each in connections.values() if each.listener == "SSL"}
        assert ANONYMOUS in found
        (name,) = found - {ANONYMOUS}
        assert name.startswith(expected)


def test_a_certificate_that_no_rule_names_is_refused(authority):
    options = authority.options(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/")
    with Cluster(brokers=1, options=options) as cluster:
        broker = cluster.brokers[0]
        with connect(authority, port_of(broker), authority.store("nameless")) as refused:
            assert refused.recv(1) == b""
        assert broker.wait_for_line("connection.handshake_failed", reason="no rule")


def test_a_trusted_certificate_whose_subject_cannot_be_read_costs_only_its_connection(authority, tmp_path):
    store = tmp_path / "odd.pem"
    store.write_bytes(certificate_without_text(authority))
    with Cluster(brokers=1, options=authority.options(ssl_client_auth="required")) as cluster:
        broker = cluster.brokers[0]
        with connect(authority, port_of(broker), store) as refused, suppress(ssl.SSLEOFError):
            assert refused.recv(1) == b""
        assert broker.wait_for_line("connection.handshake_failed", reason="subject cannot be read")
        assert not broker._hosted.server._traffic.acceptor._hosts
        mine = AdminClient(authority.client(port_of(broker), authority.store("me")))
        assert mine.list_topics(timeout=10).brokers


def certificate_without_text(authority):
    """A key and a certificate of the authority whose subject is a string of bits."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.name import _ASN1Type

    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.trusted.read_bytes())
    issuer_key = serialization.load_pem_private_key(authority.ca.private_key_pem.bytes(), None)
    bits = x509.NameAttribute(x509.NameOID.X500_UNIQUE_IDENTIFIER, b"\0\1", _ASN1Type.BitString)
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([bits]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(1))
        .not_valid_after(now + timedelta(1))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption()) + made.public_bytes(pem)


def test_a_listener_needs_the_package_that_reads_certificates(authority, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(InvalidOption, match=r"pip install 'tidelog\[tls\]'"):
        TlsListeners(config(**underscored(authority)), Recorder())


def test_a_new_certificate_serves_new_connections_without_a_restart(tmp_path, monkeypatch):
    monkeypatch.setattr("tidelog.shell.connections.tls_listeners.LOOK_EVERY_S", 0.0)
    mine = Authority(tmp_path)
    with Cluster(brokers=1, options=mine.options()) as cluster:
        broker = cluster.brokers[0]
        with connect(mine, port_of(broker)) as open_before:
            before = open_before.getpeercert(binary_form=True)
            mine.store("broker", "127.0.0.1", "localhost", common_name="broker")

            def is_new():
                with connect(mine, port_of(broker)) as fresh:
                    return fresh.getpeercert(binary_form=True) != before

            wait_for(is_new, "the new certificate is served")
            open_before.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
            assert open_before.recv(4), "what was open goes on"
        mine.broker.write_text("no certificate")
        wait_for(lambda: connect(mine, port_of(broker)).close() or "tls.not_reloaded" in kinds(broker), "a look at it")
        assert records_through(mine.client(port_of(broker)), "still", count=3)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("keystore.location", "/no\0file"),
        ("keystore.location", "/dev/zero"),
        ("keystore.location", "/"),
        ("truststore.certificates", "\0"),
        ("truststore.certificates", "\u00fc"),
        ("key.password", "x" * 5000),
    ],
)
def test_a_store_that_a_client_names_cannot_stop_the_broker(authority, tmp_path, name, text):
    """AlterConfigs is open to every client, and its values are read again at the next start."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    logger = Recorder()
    served = TlsListeners(config(**underscored(authority, ssl_client_auth="requested")), logger)
    served.change({"listener.name.ssl.ssl.truststore.location": "", f"listener.name.ssl.ssl.{name}": text})
    served.change({"listener.name.ssl.ssl.keystore.location": str(pipe)})
    assert logger.kinds.count("tls.not_reloaded") == (1 if "password" in name else 2)


def test_a_store_that_kafka_configs_names_is_checked_before_it_is_stored(tmp_path):
    mine = Authority(tmp_path)
    renewed = mine.store("renewed", "127.0.0.1", "localhost", common_name="broker")
    stranger = mine.store("stranger", "127.0.0.1", "localhost", common_name="stranger")
    with Cluster(brokers=1, options=mine.options()) as cluster:
        broker = cluster.brokers[0]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

        def refusal(name, text):
            entry = ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
            asked = ConfigResource(ConfigResource.Type.BROKER, str(broker.id), incremental_configs=[entry])
            problem = admin.incremental_alter_configs([asked])[asked].exception(30)
            return None if problem is None else (problem.args[0].code(), problem.args[0].str())

        location = "listener.name.ssl.ssl.keystore.location"
        for text, sentence in (("/no", "cannot read /no"), (str(stranger), "DistinguishedName does not match")):
            code, told = refusal(location, text)
            assert code == KafkaError.INVALID_REQUEST
            assert sentence in told
        assert refusal("ssl.keystore.location", str(renewed))[0] == KafkaError.INVALID_REQUEST
        assert refusal(location, str(renewed)) is None
        assert broker.wait_for_line("tls.reloaded", listener="SSL")
        with connect(mine, port_of(broker)) as fresh:
            shown = ssl.DER_cert_to_PEM_cert(fresh.getpeercert(binary_form=True))
        assert shown in renewed.read_text()
        assert "tls.not_reloaded" not in kinds(broker)


def test_the_expiry_of_certificates_is_in_the_metrics_and_in_the_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("tidelog.shell.connections.tls_listeners.LOOK_EVERY_S", 0.0)
    mine = Authority(tmp_path)
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(days=3)
    mine.store("broker", "127.0.0.1", "localhost", not_after=soon)
    with Cluster(brokers=1, options=mine.options()) as cluster:
        broker = cluster.brokers[0]
        text = on_loop(broker, lambda hosted: MetricsPage(hosted.node, hosted.server).text().decode())
        (shown,) = re.findall(r'tidelog_certificate_expiry_timestamp_seconds{listener="SSL"} (\S+)', text)
        assert float(shown) == soon.timestamp()
        finding = explained(cluster, capsys)["broker.certificate-expires"]
        assert finding["says"] == "The certificate of its listener SSL expires in 3 days."
        mine.store("broker", "127.0.0.1", "localhost", not_after=soon - timedelta(days=5))
        with pytest.raises(ssl.SSLError, match="certificate has expired"):
            wait_for(lambda: connect(mine, port_of(broker)).close(), "the broker to read the new store")
        finding = explained(cluster, capsys)["broker.certificate-expired"]
        assert finding["says"].startswith("The certificate of its listener SSL expired ")


def explained(cluster, capsys):
    capsys.readouterr()
    run(["explain", "broker", "0", "--bootstrap-server", cluster.bootstrap, "--watch-ms", "0", "--json"])
    return {each["kind"]: each for each in json.loads(capsys.readouterr().out)["findings"]}


def test_without_tls_nothing_is_said_of_certificates():
    with Cluster(brokers=1) as cluster:
        broker = cluster.brokers[0]
        text = on_loop(broker, lambda hosted: MetricsPage(hosted.node, hosted.server).text().decode())
        assert "certificate" not in text
        assert "certificates" not in on_loop(
            broker, lambda hosted: answered(facts(hosted.node.broker, hosted.node.now))
        )


def on_loop(broker, function):
    answer = Queue()
    broker._hosted.loop.call_soon_threadsafe(lambda: answer.put(function(broker._hosted)))
    return answer.get(timeout=30)


def test_a_store_that_is_empty_for_a_moment_does_not_stop_the_broker(tmp_path):
    mine = Authority(tmp_path)
    logger = Recorder()
    served = TlsListeners(config(**underscored(mine, ssl_client_auth="requested")), logger)
    mine.trusted.write_text("")
    served._looked_at = 0.0
    assert served.server("SSL")
    assert set(logger.kinds) == {"tls.not_reloaded"}


def test_who_needs_a_certificate_is_not_changed_by_a_client(authority):
    served = TlsListeners(config(**underscored(authority, ssl_client_auth="required")), Recorder())
    served.change({"listener.name.ssl.ssl.client.auth": "none", "listener.name.ssl.ssl.enabled.protocols": "TLSv1.2"})
    context = served.server("SSL").context
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.maximum_version == ssl.TLSVersion.TLSv1_3


def test_a_private_key_does_not_reach_the_disk(authority, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
    assert server_context(**underscored(authority))


def test_comments_in_a_trust_store_may_be_in_any_language(authority, tmp_path):
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes("# Zertifizierungsstelle K\u00f6ln\n".encode() + authority.trusted.read_bytes())
    options = underscored(authority, ssl_client_auth="required") | {"ssl_truststore_location": str(trusted)}
    assert server_context(**options).cert_store_stats()["x509_ca"] == 1


def kinds(broker):
    return [kind for _, kind, _ in list(broker.logger.lines)]


HANDSHAKES = "tidelog.shell.connections.handshakes"
LONG_S = 60.0
"""A client's connection times out sooner, so what is held up for so long fails; what is not passes on any machine."""


@contextmanager
def endless_handshakes(authority, begun):
    """A broker with many more handshakes than may run at a time."""
    options = authority.options(security_inter_broker_protocol="SSL")
    with Cluster(brokers=1, options=options) as cluster, ExitStack() as sockets:
        for _ in range(500):
            sock = socket.create_connection(("127.0.0.1", port_of(cluster.brokers[0])), timeout=10)
            sockets.callback(sock.close)
            sock.sendall(begun)
        yield cluster.brokers[0]


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01"], ids=["silent", "begun"])
def test_many_handshakes_that_never_end_hold_nobody_up(authority, begun, monkeypatch):
    """Silent ones cost nothing but a descriptor, begun ones give way."""
    monkeypatch.setattr(f"{HANDSHAKES}.DEADLINE_S", LONG_S)
    with endless_handshakes(authority, begun) as broker, connect(authority, port_of(broker)) as fine:
        assert fine.version() == "TLSv1.3"


def test_brokers_have_places_of_their_own(authority, monkeypatch):
    for limit in ("DEADLINE_S", "GRACE_S"):
        monkeypatch.setattr(f"{HANDSHAKES}.{limit}", LONG_S)
    with endless_handshakes(authority, b"\x16\x03\x01") as broker, connect(authority, broker.brokers_port) as another:
        assert another.version() == "TLSv1.3"


def test_a_handshake_has_an_end(authority, monkeypatch):
    monkeypatch.setattr("tidelog.shell.connections.handshakes.DEADLINE_S", 0.3)
    with Cluster(brokers=1, options=authority.options()) as cluster:
        broker = cluster.brokers[0]
        with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=10) as slow:
            slow.sendall(b"\x16")
            assert slow.recv(1) == b""
        assert broker.wait_for_line("connection.handshake_failed", reason="timed out")


@pytest.mark.parametrize("host", [".other", "x" * 64 + ".example.org"])
def test_a_broker_with_an_impossible_name_does_not_stop_the_others(authority, host):
    options = authority.options(security_inter_broker_protocol="SSL")
    with Cluster(brokers=1, options=options) as cluster:
        hosted = cluster.brokers[0]._hosted
        server, failed = hosted.server, Queue()
        left, right = socket.socketpair()
        left.setblocking(False)
        context = tls.client_context(config(**underscored(authority)))
        begin = server._traffic.broker_handshakes.begin
        hosted.loop.call_soon_threadsafe(lambda: begin(left, context, host, failed.put))
        hosted.loop.call_soon_threadsafe(lambda: server._dialer.dial(-9, host, 9, failed.put))
        assert [type(failed.get(timeout=10)) for _ in range(2)] == [str, str]
        right.close()


def test_a_large_answer_reaches_a_reader_that_pauses(authority):
    """The socket is full more than once: OpenSSL then wants the same bytes again."""
    with Cluster(brokers=1, options=authority.options()) as cluster:
        cluster.create_topic("t")
        port = port_of(cluster.brokers[0])
        results = []
        workers = [
            Thread(target=lambda n=n: results.append(records_through(authority.client(port), f"t{n}", 300, 40_000)))
            for n in range(3)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
        assert results == [True] * 3


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "ssl.keystore.location: a TLS listener needs a key store"),
        ({"ssl_keystore_location": "/no", "ssl_keystore_type": "PEM"}, "cannot read /no"),
    ],
)
def test_a_store_that_cannot_be_used_keeps_the_broker_from_starting(options, sentence):
    with pytest.raises(InvalidOption, match=sentence):
        TlsListeners(config(listeners="SSL://:9093", security_inter_broker_protocol="SSL", **options), EventLogger(""))


def test_brokers_do_not_talk_in_plain_text_beside_secured_listeners():
    with pytest.raises(
        InvalidOption, match=r"security.inter.broker.protocol is PLAINTEXT, but no listener is PLAINTEXT"
    ):
        TlsListeners(config(listeners="SSL://:9093"), EventLogger(""))
