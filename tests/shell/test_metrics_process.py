"""The page of metrics of a real broker."""

import re
import urllib.request

from tidelog.shell.supervisor import Supervisor


def values(text):
    return {name: float(number) for name, number in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE)}


def test_a_broker_reports_its_numbers_where_it_is_asked_to(tmp_path, free_ports):
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    with (
        Supervisor(tmp_path, brokers=1, port=0, overrides={"metrics.listener": place}),
        urllib.request.urlopen(f"http://{place}/metrics", timeout=20) as answer,
    ):
        found = values(answer.read().decode())
    assert found["kafka_server_replicamanager_leadercount"] == 0
    assert found["kafka_server_replicamanager_underreplicatedpartitions"] == 0
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 0
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == 1
    assert found['kafka_network_requestmetrics_requests_total{request="Metadata"}'] >= 1
    assert found['tidelog_events_total{kind="controller.elected"}'] == 1
    assert found["process_resident_memory_bytes"] > 0
