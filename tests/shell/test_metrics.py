"""The page of metrics: a real broker's, and what three brokers report of records, groups and replicas."""

import json
import re
import socket
from pathlib import Path
from queue import SimpleQueue

import pytest

from tests.node.one_broker import OneBroker
from tests.waiting import PATIENCE_S, wait_for
from tidelog.cli.main import run
from tidelog.shell import kafka_metrics
from tidelog.shell.event_logger import EventLogger
from tidelog.shell.metrics_page import MetricsPage
from tidelog.shell.transport import Consumer, Producer
from tidelog.testing import Cluster

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "tidelog.json"


def values(text):
    return {name: float(number) for name, number in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE)}


class Pages:
    """What all brokers of a cluster report, each on its own loop."""

    def __init__(self, cluster):
        self._cluster = cluster

    def read(self):
        return [values(self._text(broker._hosted)) for broker in self._cluster.brokers if broker.is_running]

    @staticmethod
    def _text(hosted):
        page = MetricsPage(hosted.node, hosted.server)
        answer = SimpleQueue()
        hosted.loop.call_soon_threadsafe(lambda: answer.put(page.text()))
        return answer.get(timeout=PATIENCE_S).decode()

    def sums(self):
        """Summed over the brokers, as dashboards do."""
        total = {}
        for page in self.read():
            for name, number in page.items():
                total[name] = total.get(name, 0) + number
        return total

    def until(self, name, wanted):
        return wait_for(lambda: found if (found := self.sums()).get(name) == wanted else None, f"{name} = {wanted}")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(brokers=3) as started:
        started.create_topic("t", 2, min_insync_replicas=2)
        with Producer(started.bootstrap) as producer:
            for number in range(100):
                producer.send("t", b"x" * 100, partition=number % 2)
            assert all(delivery.is_acknowledged for delivery in producer.flush())
        with Consumer(started.bootstrap, group="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            read = 0
            while read < 60:
                read += len(consumer.poll(10, most=10))
            consumer.commit()
        yield started


def test_records_bytes_and_offsets(cluster):
    pages = Pages(cluster)
    pages.until('kafka_topic_partition_current_offset{partition="0",topic="t"}', 50)
    for partition in (0, 1):  # two copies are enough for an acknowledgement
        found = pages.until(f'kafka_log_log_logendoffset{{partition="{partition}",topic="t"}}', 3 * 50)
    for partition in (0, 1):
        found = pages.until(f'kafka_topic_partition_in_sync_replica{{partition="{partition}",topic="t"}}', 3)
    assert found['kafka_server_brokertopicmetrics_messagesin_total{topic="t"}'] == 100
    bytes_in = found['kafka_server_brokertopicmetrics_bytesin_total{topic="t"}']
    assert 10_000 < bytes_in < 20_000
    assert found['kafka_server_brokertopicmetrics_replicationbytesout_total{topic="t"}'] == 2 * bytes_in
    assert found['kafka_server_brokertopicmetrics_replicationbytesin_total{topic="t"}'] == 2 * bytes_in
    assert found['kafka_server_brokertopicmetrics_bytesout_total{topic="t"}'] >= bytes_in * 0.5
    assert found['kafka_log_log_logendoffset{partition="0",topic="t"}'] == 3 * 50
    assert found['kafka_topic_partition_replicas{partition="1",topic="t"}'] == 3
    assert found['kafka_topic_partition_in_sync_replica{partition="1",topic="t"}'] == 3
    assert found['kafka_topic_partitions{topic="t"}'] == 2
    assert found["kafka_brokers"] == 3


def test_the_lag_of_a_group_is_what_it_has_not_read(cluster):
    pages = Pages(cluster)
    found = pages.until('kafka_consumergroup_members{consumergroup="g"}', 0)  # who leaves waits for no answer
    positions = [
        found[f'kafka_consumergroup_current_offset{{consumergroup="g",partition="{p}",topic="t"}}'] for p in (0, 1)
    ]
    assert 60 <= sum(positions) <= 100
    found = pages.until('kafka_consumergroup_lag_sum{consumergroup="g"}', 100 - sum(positions))
    assert found['kafka_consumergroup_current_offset_sum{consumergroup="g"}'] == sum(positions)


def test_every_panel_of_the_dashboard_has_numbers(cluster):
    text = " ".join(
        target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]
    )
    named = set(re.findall(r"\b(?:kafka|tidelog|process)_\w+", text))
    told = {name.partition("{")[0] for name in Pages(cluster).sums()}
    assert len(named) > 15
    assert named <= told


def test_who_is_over_a_quota_is_counted(cluster):
    quota = ("--alter", "--client", "slow", "--add-config", "producer_byte_rate=1000")
    assert run(("configs", "--bootstrap-server", cluster.bootstrap, *quota)) == 0
    pages, throttled = Pages(cluster), 'tidelog_quotas_throttled_total{request="Produce"}'

    def is_throttled():
        with Producer(cluster.bootstrap, client_id="slow") as producer:
            producer.send("t", b"x" * 20_000, partition=0)
            assert all(delivery.is_acknowledged for delivery in producer.flush())
        return pages.sums()[throttled]

    wait_for(is_throttled, "the brokers to hear of the quota")
    throttle, found = "kafka_network_requestmetrics_throttletimems", pages.sums()
    assert found[f'{throttle}_sum{{request="Produce"}}'] > 0
    assert found[f'{throttle}_sum{{request="Fetch"}}'] == 0
    assert found[f'{throttle}_count{{request="Produce"}}'] >= found[throttled]


def test_a_dead_broker_is_seen(cluster):
    pages = Pages(cluster)
    pages.until("kafka_server_replicamanager_underreplicatedpartitions", 0)
    cluster.kill(2)
    found = pages.until("kafka_brokers", 2)
    found = pages.until('kafka_topic_partition_under_replicated_partition{partition="0",topic="t"}', 1)
    assert found['kafka_topic_partition_in_sync_replica{partition="0",topic="t"}'] == 2
    assert found['kafka_cluster_partition_atminisr{partition="0",topic="t"}'] == 1


def test_lines_as_json(capsys):
    EventLogger("broker-1", as_json=True).write("info", "isr.shrink", {"partition": "t-0", "isr": [1, 2]})
    line = json.loads(capsys.readouterr().err)
    assert line.pop("time").endswith("Z")
    assert line == {"level": "info", "who": "broker-1", "kind": "isr.shrink", "partition": "t-0", "isr": [1, 2]}


def test_refused_connections_and_the_memory_of_requests_are_counted(cluster):
    pages, kind = Pages(cluster), 'tidelog_events_total{kind="connection.violation"}'
    before = pages.sums().get(kind, 0)
    with socket.create_connection(("127.0.0.1", cluster.brokers[0].port), timeout=PATIENCE_S) as sock:
        sock.sendall(b"\xff\xff\xff\xff")
        assert sock.recv(1) == b""
    pages.until(kind, before + 1)
    found = pages.sums()
    used, available = (found[f"kafka_network_socketserver_memorypool{each}"] for each in ("used", "available"))
    assert 0 <= used < 1_000_000
    running = sum(broker.is_running for broker in cluster.brokers)
    assert used + available == running * 134_217_728
    assert found["tidelog_network_starved"] == 0


def test_in_sync_sets_that_are_too_small_and_elections_of_eligible_replicas_are_counted():
    broker = OneBroker(min_insync_replicas=3)
    broker.lead(isr=(0, 1))

    def number(name):
        found = kafka_metrics.metrics(broker.node, {"partition.eligible": 2})
        return {sample.name: sample.value for metric in found for sample in metric.samples}[name]

    assert number("kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total") == 2
    under, at = "kafka_cluster_partition_underminisr", "kafka_cluster_partition_atminisr"
    assert (number(under), number(at)) == (1, 0)
    broker.lead(isr=(0,), replicas=(0,), partition_epoch=5)
    assert (number(under), number(at)) == (0, 1), "the option asks for more replicas than there are"
    broker.lead(isr=(0,), replicas=(0,), elr=(1,), partition_epoch=6)
    assert number(under) == 1
