"""Kafka's own metrics, named as the JMX exporter names them (lower case), as far as they apply to Tidelog.

Names that begin with `tidelog_` are Tidelog's own: events by kind, high watermarks, the leader's view of its followers'
progress, and when certificates expire.

`gauge`, `counter` and their plurals build families of samples for both sets of metrics.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from tidelog.errors import DiskFailed
from tidelog.model import NO_LEADER
from tidelog.node.dispatch import Dispatch
from tidelog.node.node import Node
from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition
from tidelog.shell.connections.arrivals import Arrivals
from tidelog.wire.messages import SCHEMAS

RUNNING = 3
PARTITION = ("topic", "partition")

Samples = Iterable[tuple[Sequence[str], float]]


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, value: float) -> Metric:
    """The client library appends `_total` to the name."""
    return CounterMetricFamily(name, text, value=value)


def counters(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for values, number in samples:
        family.add_metric(values, number)
    return family


def labels_of(replica: Partition) -> tuple[str, str]:
    return replica.name.topic, str(replica.name.partition)


def is_under_replicated(replica: Partition, role: Leader) -> bool:
    """Whether a replica is out of sync; replicas that a reassignment adds do not count."""
    return len(role.isr) < len(replica.replicas) - len(role.adding or ())


TRAFFIC: dict[str, tuple[str, Callable[[Partition], int]]] = {
    "messagesin": ("Records that clients sent.", lambda partition: partition.traffic.records_in),
    "bytesin": ("Bytes that clients sent.", lambda partition: partition.traffic.bytes_in),
    "bytesout": ("Bytes that clients fetched.", lambda partition: partition.traffic.bytes_out),
    "replicationbytesin": ("Bytes fetched from leaders.", lambda partition: partition.traffic.replicated_in),
    "replicationbytesout": ("Bytes that followers fetched.", lambda partition: partition.traffic.replicated_out),
}

LOGS: dict[str, tuple[str, Callable[[Partition], int]]] = {
    "kafka_log_log_logendoffset": ("Offset of the next record.", lambda partition: partition.log.log_end_offset),
    "kafka_log_log_logstartoffset": ("Log start offset.", lambda partition: partition.log.log_start_offset),
    "kafka_log_log_size": ("Bytes of the log.", lambda partition: partition.log.size),
    "tidelog_high_watermark": (
        "The high watermark: consumers read up to here.",
        lambda partition: partition.high_watermark,
    ),
}

LED: dict[str, tuple[str, Callable[[Partition, Leader], int]]] = {
    "replicascount": ("Assigned replicas.", lambda partition, _: len(partition.replicas)),
    "insyncreplicascount": ("Replicas in sync.", lambda _, role: len(role.isr)),
    "underreplicated": (
        "1 if a replica is out of sync; replicas that a reassignment adds do not count.",
        is_under_replicated,
    ),
    "underminisr": (
        "1 if acks=all is rejected.",
        lambda partition, role: partition.lacks_replicas(role),
    ),
    "atminisr": (
        "1 if acks=all is rejected after one more replica falls out of sync.",
        lambda partition, role: len(role.isr) == partition.min_in_sync,
    ),
    "laststableoffsetlag": (
        "Records withheld by open transactions.",
        lambda partition, _: partition.high_watermark - partition.last_stable_offset,
    ),
}
"""For each led partition, kafka.cluster:type=Partition."""


def metrics(node: Node, events: Mapping[str, int]) -> Iterator[Metric]:
    replicas = list(node.replicas)
    led = [(replica, replica.role) for replica in replicas if isinstance(replica.role, Leader)]
    yield from _manager(node, replicas, led)
    yield from _controller(node, events)
    yield from _folders(node)
    yield from _traffic(replicas)
    yield from _requests(node.dispatch)
    for name, (text, count) in LOGS.items():
        yield gauges(name, text, PARTITION, ((labels_of(replica), count(replica)) for replica in replicas))
    for name, (text, judge) in LED.items():
        samples = ((labels_of(replica), judge(replica, role)) for replica, role in led)
        yield gauges(f"kafka_cluster_partition_{name}", text, PARTITION, samples)
    yield gauges("tidelog_replica_lag", "Records that a follower lacks.", (*PARTITION, "replica"), _lags(led))
    if node.broker.certificates is not None and (expiries := node.broker.certificates.expiries()):
        times = (((listener,), expires_ms / 1000) for listener, expires_ms in expiries.items())
        text = "When the certificate of the listener expires, in seconds since 1970."
        yield gauges("tidelog_certificate_expiry_timestamp_seconds", text, ("listener",), times)
    kinds = (((kind,), count) for kind, count in sorted(events.items()))
    yield counters("tidelog_events", "Events by kind, such as isr.shrink.", ("kind",), kinds)


def memory_pool(arrivals: Arrivals) -> Iterator[Metric]:
    """kafka.network:type=SocketServer: the memory of requests that are arriving."""
    used, prefix = arrivals.buffers.used, "kafka_network_socketserver_memorypool"
    yield gauge(f"{prefix}used", "Bytes held by requests that are arriving.", used)
    yield gauge(f"{prefix}available", "Bytes left of queued.max.request.bytes.", arrivals.buffers.budget - used)
    yield gauge("tidelog_network_starved", "Connections that wait for memory.", arrivals.waiting)


def _manager(node: Node, replicas: list[Partition], led: list[tuple[Partition, Leader]]) -> Iterator[Metric]:
    """kafka.server:type=ReplicaManager, and the broker's state."""
    sums = {name: sum(judge(replica, role) for replica, role in led) for name, (_, judge) in LED.items()}
    changes = node.broker.in_sync
    prefix = "kafka_server_replicamanager_"
    yield gauge(f"{prefix}partitioncount", "Replicas that this broker holds.", len(replicas))
    yield gauge(f"{prefix}leadercount", "Partitions that this broker leads.", len(led))
    yield gauge(
        f"{prefix}underreplicatedpartitions", "Led partitions with a replica out of sync.", sums["underreplicated"]
    )
    yield gauge(f"{prefix}underminisrpartitioncount", "Led partitions that reject acks=all.", sums["underminisr"])
    yield gauge(
        f"{prefix}atminisrpartitioncount",
        "Led partitions that reject acks=all after one more replica falls out of sync.",
        sums["atminisr"],
    )
    moving = sum(role.adding is not None for _, role in led)
    yield gauge(f"{prefix}reassigningpartitions", "Led partitions that are being reassigned.", moving)
    yield gauge(f"{prefix}offlinereplicacount", "Replicas in failed folders.", sum(each.failed for each in replicas))
    yield counter(f"{prefix}isrshrinks", "In-sync sets that became smaller.", changes.shrinks)
    yield counter(f"{prefix}isrexpands", "In-sync sets that became larger.", changes.expands)
    yield gauge("kafka_server_kafkaserver_brokerstate", "3 while it serves.", RUNNING)


def _controller(node: Node, events: Mapping[str, int]) -> Iterator[Metric]:
    """kafka.controller:type=KafkaController. Only the controller reports the metrics of the cluster; other brokers
    report 0."""
    leads = node.broker.controller.leading
    image = node.broker.image
    topics = list(image.topics.values()) if leads else []
    partitions = [partition for topic in topics for partition in topic.partitions.values()]
    prefix = "kafka_controller_kafkacontroller_"
    away = sum(bool(each.replicas) and each.leader != each.replicas[0] for each in partitions)
    offline = sum(each.leader == NO_LEADER for each in partitions)
    yield gauge(f"{prefix}activecontrollercount", "1 at the controller.", leads)
    yield gauge(f"{prefix}activebrokercount", "Brokers alive.", len(image.brokers) if leads else 0)
    yield gauge(f"{prefix}globaltopiccount", "Topics.", len(topics))
    yield gauge(f"{prefix}globalpartitioncount", "Partitions.", len(partitions))
    yield gauge(f"{prefix}offlinepartitionscount", "Partitions without a leader.", offline)
    yield gauge(f"{prefix}preferredreplicaimbalancecount", "Partitions not led by their first replica.", away)
    deletions = len(node.broker.controller.deletions)
    yield gauge(f"{prefix}topicstodeletecount", "Topics marked for deletion that still exist.", deletions)
    unclean = events.get("partition.unclean", 0)
    yield counter("kafka_controller_controllerstats_uncleanleaderelections", "Unclean elections.", unclean)
    name = "kafka_controller_controllerstats_electionfromeligibleleaderreplicas"
    yield counter(name, "Elections of eligible leader replicas (KIP-966).", events.get("partition.eligible", 0))


def _requests(dispatch: Dispatch) -> Iterator[Metric]:
    """kafka.network:type=RequestMetrics, by API. A request that was not throttled counts as one of 0 ms."""
    names = [(key, (SCHEMAS[key].name,), count) for key, count in dispatch.requests.items()]
    billing, labels = dispatch.billing, ("request",)
    received = [(name, count) for _, name, count in names]
    yield counters("kafka_network_requestmetrics_requests", "Requests received, by API.", labels, received)
    text = "Milliseconds for which clients were throttled."
    throttles = SummaryMetricFamily("kafka_network_requestmetrics_throttletimems", text, labels=labels)
    for key, name, count in names:
        throttles.add_metric(name, count, billing.throttled_ms[key])
    yield throttles
    throttled = [(name, billing.throttled[key]) for key, name, _ in names]
    yield counters("tidelog_quotas_throttled", "Requests of throttled clients.", labels, throttled)


def _folders(node: Node) -> Iterator[Metric]:
    folders = node.broker.config.folders
    failed = {folder: _failed(node, folder) for folder in folders}
    samples = (((folder,), failed[folder]) for folder in folders)
    yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Failed log folders.", sum(failed.values()))
    yield gauges("kafka_log_logmanager_logdirectoryoffline", "1 for a failed log folder.", ("logdirectory",), samples)
    homes = Counter(node.replicas.folder_of(name) for name in node.broker.uncleanable if node.replicas.get(*name))
    uncleanable: Samples = (((folder,), homes[folder]) for folder in folders)
    text = "Logs that cannot be compacted; tidelog explain says why."
    yield gauges("kafka_log_logcleanermanager_uncleanable_partitions_count", text, ("logdirectory",), uncleanable)


def _failed(node: Node, folder: str) -> bool:
    try:
        node.replicas.usage(folder)
    except (DiskFailed, FileNotFoundError):
        return True
    return False


def _traffic(replicas: list[Partition]) -> Iterator[Metric]:
    """kafka.server:type=BrokerTopicMetrics, by topic, without the traffic of replicas that left this broker."""
    for name, (text, count) in TRAFFIC.items():
        sums: Counter[str] = Counter()
        for replica in replicas:
            sums[replica.name.topic] += count(replica)
        samples = (((topic,), total) for topic, total in sums.items())
        yield counters(f"kafka_server_brokertopicmetrics_{name}", text, ("topic",), samples)


def _lags(led: list[tuple[Partition, Leader]]) -> Samples:
    for replica, role in led:
        for follower, progress in role.remote.items():
            lag = replica.log.log_end_offset - max(progress.log_end_offset, 0)
            yield (*labels_of(replica), str(follower)), lag
