"""What both sets of metrics share: families of samples with few words, and how a partition is named and judged."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tidelog.partition.leader import Leader
from tidelog.partition.partition import Partition

PARTITION = ("topic", "partition")

Samples = Iterable[tuple[Sequence[str], float]]


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def gauges(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, value: float) -> Metric:
    """`_total` is added to the name."""
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
    """Whether one is out of sync; those that a move adds do not count."""
    return len(role.isr) < len(replica.replicas) - len(role.adding or ())
