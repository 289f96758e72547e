"""TLS under load, with a broker of its own process: what handshakes and streams cost others, and new certificates."""

import ssl
import threading
import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from bench.loads.handshakes import Handshakes
from bench.loads.librdkafka import Librdkafka
from bench.loads.steady import Steady
from bench.sides import Tidelog
from bench.wire import fresh_topic
from tests.processor_time import without_collections
from tests.shell.authority import Authority, connect, port_of
from tests.waiting import wait_for
from tidelog.shell.connections import handshakes
from tidelog.testing import Cluster

HELD_MS = 30_000
"""A stall, also on a busy machine. How long a produce really takes is measured, not tested: docs/security.md has figures.
That a turn of the loop is bounded is tested without a clock (test_tls_stream.py)."""
TURN_S = 0.05
"""Processor time of the loop; 2 ms were measured."""
EVERY_MS = 50
"""Rarely enough that produces do not queue up behind each other on a slow machine."""


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def broker(authority, tmp_path):
    with Tidelog(tmp_path / "cluster", 1, keystore=authority.broker) as side:
        fresh_topic(side.ports[0], "canary", 1, 1)
        fresh_topic(side.ports[0], "stream", 1, 1)
        yield side


def test_a_turn_of_a_thousand_handshakes_a_second_takes_little_processor_time(authority, monkeypatch):
    """A broker in this process, so that its thread's own clock can be read: other load does not count."""
    turns = []

    def timed(handshakes):
        begun = time.thread_time()
        plain(handshakes)
        turns.append(time.thread_time() - begun)

    plain = handshakes.Handshakes._take_turn
    monkeypatch.setattr(handshakes.Handshakes, "_take_turn", timed)
    with without_collections(), Cluster(brokers=1, options=authority.options()) as cluster:
        found = Handshakes(port_of(cluster.brokers[0]), 1000, 2).wait()
    assert found["answered"] > 0
    assert max(turns) <= TURN_S


def test_a_thousand_handshakes_a_second_do_not_hold_up_a_producer(broker):
    canary = Steady(broker.ports[0], "canary", EVERY_MS)
    found = Handshakes(broker.tls_ports[0], 1000, 3).wait()
    felt = canary.stop()
    assert found["answered"] > 0, found
    assert felt["longest"] < HELD_MS, (felt, found)


def test_connections_that_stream_at_full_speed_do_not_hold_up_a_producer(broker, authority):
    client = Librdkafka(100_000, 1000, str(authority.trusted))
    client.run(broker.tls_bootstrap, "stream")
    canary = Steady(broker.ports[0], "canary", EVERY_MS)
    works = [threading.Thread(target=act, args=(broker.tls_bootstrap, "stream")) for act in (client.read, client.run)]
    for work in works:
        work.start()
    for work in works:
        work.join()
    felt = canary.stop()
    assert felt["longest"] < HELD_MS, felt


def test_certificates_are_replaced_under_load_without_an_error(broker, authority):
    """By new files, complete or not, and by kafka-configs, while clients produce and new ones come."""
    stopped, failed, connected = threading.Event(), [], []
    producer = Producer({**authority.client(broker.tls_ports[0]), "linger.ms": 1, "error_cb": failed.append})

    def produce():
        while not stopped.is_set():
            producer.produce("stream", b"x" * 1000, on_delivery=lambda error, _: error and failed.append(error))
            producer.poll(0.001)

    def come():
        while not stopped.is_set():
            try:
                with connect(authority, broker.tls_ports[0]) as sock:
                    connected.append(sock.getpeercert(binary_form=True))
            except OSError as error:
                failed.append(error)

    works = [threading.Thread(target=work) for work in (produce, come, come)]
    for work in works:
        work.start()
    try:
        for number in range(4):
            changed = replace_file if number % 2 else alter_location
            shown = changed(broker, authority, number)
            wait_for(lambda shown=shown: shown in connected[-10:], "the new certificate")
    finally:
        stopped.set()
        for work in works:
            work.join()
    assert producer.flush(60) == 0
    assert not failed
    assert len(set(connected)) >= 5


def certificate_of(store):
    text = store.read_text()
    return ssl.PEM_cert_to_DER_cert(
        text[text.index("-----BEGIN CERTIFICATE") :].partition("-----END CERTIFICATE")[0]
        + "-----END CERTIFICATE-----\n"
    )


def new_store(authority, name):
    return authority.store(name, "127.0.0.1", "localhost", common_name="broker")


def replace_file(broker, authority, number):
    """The file that is in use is half written for a moment, and then replaced."""
    new = new_store(authority, f"next-{number}")
    used = authority.folder / f"altered-{number - 1}.pem"
    used.write_text(new.read_text()[:500])
    shown = certificate_of(new)
    new.replace(used)
    return shown


def alter_location(broker, authority, number):
    new = new_store(authority, f"altered-{number}")
    entry = ConfigEntry(
        "listener.name.ssl.ssl.keystore.location", str(new), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.BROKER, "0", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)
    return certificate_of(new)
