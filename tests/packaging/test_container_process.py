"""The entry point of the container image, run as the image runs it: its variables are those of Kafka's image."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.cli.commands import PATIENCE_S
from tests.output import line_with
from tidelog.config import properties

PACKAGING = Path(__file__).parents[2] / "packaging" / "docker"


@pytest.fixture
def container(tmp_path):
    """Starts the entry point with these variables; the folders are the container's."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "tidelog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidelog "$@"\n')
    (tools / "tidelog").chmod(0o755)
    started = []

    def start(*arguments, mounted=None, **variables):
        if mounted is not None:
            (tmp_path / "mounted").mkdir()
            (tmp_path / "mounted" / "server.properties").write_text(mounted)
        given = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "TIDELOG_MOUNTED": str(tmp_path / "mounted"),
            "TIDELOG_DEFAULT": str(PACKAGING / "server.properties"),
            "TIDELOG_MERGED": str(tmp_path / "merged.properties"),
        }
        command = [sys.executable, str(PACKAGING / "entrypoint.py"), *arguments]
        process = subprocess.Popen(
            command, env=given | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, tmp_path / "merged.properties"

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def config_of_broker(port, broker):
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    return {
        name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(PATIENCE_S).items()
    }


def test_variables_become_options_of_a_broker_that_serves(container, tmp_path, free_ports):
    (port,) = free_ports(1)
    process, merged = container(
        KAFKA_NODE_ID="7",
        KAFKA_LISTENERS=f"PLAINTEXT://127.0.0.1:{port}",
        KAFKA_LOG_DIRS=str(tmp_path / "data"),
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR="1",
        KAFKA_AUTO_CREATE_TOPICS_ENABLE="false",
        KAFKA_HEAP_OPTS="-Xmx1g",
        CLUSTER_ID="unrelated",
    )
    assert "broker-7 broker.registered" in line_with(process.stderr, "broker.registered")
    found = config_of_broker(port, 7)
    assert (found["auto.create.topics.enable"], found["log.dirs"]) == ("false", str(tmp_path / "data"))
    assert stat.S_IMODE(merged.stat().st_mode) == 0o600, "options may be secrets"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err


def test_a_node_of_a_quorum_is_formatted_with_the_cluster_id_once(container, tmp_path, free_ports):
    clients, controllers = free_ports(2)
    options = {
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_NODE_ID": "1",
        "KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controllers}",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controllers}",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
    }
    process, _ = container(**{**options, "KAFKA_CONTROLLER_QUORUM_VOTERS": ""})
    _, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err.count("\n")) == (1, 1), err
    assert "controller.quorum.voters" in err, "the tool says why it cannot format, and no broker starts"
    for given in ({"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}, {}):  # the second start keeps what the first one wrote
        process, _ = container(**options, **given)
        assert "broker-1 broker.registered" in line_with(process.stderr, "broker.registered")
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{clients}"})
        assert admin.describe_cluster().result(PATIENCE_S).cluster_id == "4L6g3nShT-eMCtK--X86sw"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err


@pytest.mark.parametrize(
    ("variable", "option"),
    [
        ("KAFKA_LOG_DIRS", "log.dirs"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_PLAIN_SASL_JAAS_CONFIG", "listener.name.sasl_ssl.plain.sasl.jaas.config"),
        ("KAFKA_LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
         "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"),
    ],
)  # fmt: skip
def test_names_are_those_of_kafkas_image(container, variable, option):
    process, merged = container("--override", "no-number", **{variable: "x"})
    process.communicate(timeout=PATIENCE_S)
    assert properties.parse(merged.read_text()) == {option: "x"}


def test_variables_take_precedence_over_a_mounted_file(container):
    mounted = "node.id=1\nlog.dirs=/data"
    process, merged = container("--override", "no-number", mounted=mounted, KAFKA_NODE_ID="2")
    process.communicate(timeout=PATIENCE_S)
    assert properties.parse(merged.read_text()) == {"node.id": "2", "log.dirs": "/data"}


def test_a_certificate_keeps_its_lines(container):
    text = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    process, merged = container(
        "--override", "no-number", KAFKA_SSL_TRUSTSTORE_CERTIFICATES=text, KAFKA_SSL_KEYSTORE_KEY=r"one\ntwo"
    )
    process.communicate(timeout=PATIENCE_S)
    found = properties.parse(merged.read_text())
    assert found == {"ssl.truststore.certificates": text, "ssl.keystore.key": "one\ntwo"}


def test_without_options_the_images_own_file_counts(container):
    process, merged = container("--override", "no-number", KAFKA_VERSION="4.3.1")
    process.communicate(timeout=PATIENCE_S)
    assert merged.read_text() == (PACKAGING / "server.properties").read_text()


def test_what_a_broker_refuses_is_a_sentence(container):
    process, _ = container(KAFKA_NODE_ID="x", KAFKA_LISTENERS="PLAINTEXT://127.0.0.1:0")
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (1, "")
    assert "node.id" in err
    assert "Traceback" not in err


def test_the_dockerfile_copies_what_is_there():
    """No Docker runs here: what the file copies and starts exists at least."""
    lines = (PACKAGING / "Dockerfile").read_text().splitlines()
    copied = [line.split()[-2] for line in lines if line.startswith("COPY")]
    assert copied == ["dist/tidelog-*.whl", "packaging/docker/entrypoint.py", "packaging/docker/server.properties"]
    assert all((PACKAGING.parents[1] / name).exists() for name in copied[1:])
    assert 'ENTRYPOINT ["tidelog-entrypoint"]' in lines
