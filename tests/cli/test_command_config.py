"""`--command-config`: what audits and checks connect with, and errors. test_secured_process.py runs every command."""

import json

import pytest

from tests.shell.test_sasl import WANTS
from tests.shell.test_tls import Authority, port_of
from tidelog.audit.io import fetching
from tidelog.check.history.operation import Header
from tidelog.check.history.text import parse
from tidelog.check.workload.process import Process
from tidelog.check.workload.recorder import Recorder, SharedState
from tidelog.check.workload.target import create_topics, delete_topics
from tidelog.cli.admin_requests import given_client_options
from tidelog.testing import Cluster

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required {}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """The address of brokers with a SASL_SSL listener, and a client's file."""
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    wants = {name.replace("sasl_plaintext", "sasl_ssl"): text for name, text in WANTS.items()}
    listeners = {"listeners": WANTS["listeners"].replace("SASL_PLAINTEXT", "SASL_SSL")}
    file = folder / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=" + LOGIN.format('username="alice" password="wonder land";') + "\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={authority.trusted}\ngroup.id=readers\n"
    )
    with Cluster(brokers=1, options={**authority.options(), **wants, **listeners}) as cluster:
        yield f"127.0.0.1:{port_of(cluster.brokers[0], 'SASL_SSL')}", file


@pytest.fixture
def there(tidelog, secured):
    """Runs a command on these brokers with the file."""
    address, file = secured

    def call(command, *arguments, given=b""):
        brokers = ("--bootstrap-server", address, "--command-config", str(file))
        result = tidelog(command, *arguments, *brokers, given=given)
        assert "wonder" not in result.out + result.err
        return result

    return call


def test_an_audit_reads_every_replica(there):
    there("topics", "--create", "--topic", "audited")
    there("produce", "--topic", "audited", given=b"one\n")
    result = there("audit", "--local", "--json", "--topic", "audited")
    assert result.code == 0, result
    assert json.loads(result.out)["partitions"]
    assert "wonder" not in repr(fetching.Source("b:1", 0, b"", {"sasl_jaas_config": "wonder"}))


def test_the_clients_of_a_check_write_and_read(secured, tmp_path):
    address, file = secured
    place = create_topics(address, topics=1, partitions=1, client=given_client_options(str(file)))
    assert "wonder" not in repr(place)
    recorder = Recorder(tmp_path / "h.jsonl", Header([(each.topic, each.partition) for each in place.partitions], {}))
    process = Process(place, recorder, SharedState(1), subscribes=False, transactional_id="of-check")
    process.assign({0: 0})
    process.transact([0], polls=False, aborts=False)
    found = 0
    while not found:
        found = process.poll(10)
    process.leave()
    recorder.close()
    delete_topics(place)
    assert "wonder" not in (tmp_path / "h.jsonl").read_text()
    with (tmp_path / "h.jsonl").open() as lines:
        assert parse(lines).operations


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("sasl.jaas.config=" + LOGIN.format('username="alice" password="wrong";'), "refuses user 'alice'"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism is one of PLAIN"),
        ("ssl.truststore.location=", "is not trusted"),
        ("security.protocol=TLS", "security.protocol is one of"),
        ("ssl.trustore.location=/x", "ssl.trustore.location is not an option of this client"),
        ("sasl.jaas.config=nonsense password=wonder", "is not a JAAS login"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(tidelog, secured, tmp_path, line, says):
    address, good = secured
    file = tmp_path / "client.properties"
    file.write_text(f"{good.read_text()}{line}\n")
    result = tidelog("topics", "--bootstrap-server", address, "--command-config", str(file), "--list")
    assert result.code == 1
    assert says in result.err
    assert "wonder" not in result.err
    assert len(result.err.splitlines()) == 1
