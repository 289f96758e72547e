"""Metrics of streaming queries for Prometheus: `spark.streams.addListener(QueryMetrics())` adds them to the page that
`prometheus_client.start_http_server` serves."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming import StreamingQueryListener

from tidelog.shell.kafka_metrics import counters, gauges
from tidelog.spark.progress import behind, offsets

QUERY = ("query",)
POSITION = ("query", "source", "topic", "partition")


class QueryMetrics(StreamingQueryListener, Collector):
    """The last progress of each running query of a session, under its name, or its ID if it has none. A query that ends
    has no more metrics, except for the counters. `source` is the number of the source in the query.

    Spark calls it on a thread of its own, and `collect` runs on that of the page: each replaces or reads whole values
    only.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._names: dict[str, str] = {}
        self._progress: dict[str, Any] = {}
        self._rows: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        registry.register(self)

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's name
        name = event.name or str(event.id)
        self._names[str(event.runId)] = name
        self._rows[name] += 0
        self._failures[name] += 0

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  Spark's name
        progress = event.progress
        name = progress.name or str(progress.id)
        self._names[str(progress.runId)] = name
        self._progress[name] = progress
        self._rows[name] += sum(source.numInputRows for source in progress.sources)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  Spark's name
        """There is nothing new: the last progress still holds."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  Spark's name
        name = self._names.pop(str(event.runId), str(event.id))
        self._progress.pop(name, None)
        self._failures[name] += event.exception is not None

    def collect(self) -> Iterable[Metric]:
        running = list(self._progress.items())
        sources = [
            ((name, str(number)), source)
            for name, progress in running
            for number, source in enumerate(progress.sources)
        ]
        for suffix, text, found in (
            ("offsets_behind_latest", "Offsets that a partition had left to read after the last batch.", behind),
            ("end_offset", "Offset behind the last record that was read.", _end),
            ("latest_offset", "End of the partition when the last batch was planned.", _latest),
        ):
            samples = (
                ((*labels, topic, str(partition)), value)
                for labels, source in sources
                for (topic, partition), value in found(source).items()
            )
            yield gauges(f"spark_streaming_{suffix}", text, POSITION, samples)
        batches = [((name,), progress) for name, progress in running]
        yield gauges(
            "spark_streaming_batch",
            "Number of the last batch.",
            QUERY,
            ((label, each.batchId) for label, each in batches),
        )
        yield gauges(
            "spark_streaming_batch_duration_seconds",
            "How long the last batch took.",
            QUERY,
            ((label, each.durationMs.get("triggerExecution", 0) / 1000) for label, each in batches),
        )
        yield counters("spark_streaming_rows", "Records that were read.", QUERY, _by_query(self._rows))
        yield counters("spark_streaming_failures", "Runs that ended with an error.", QUERY, _by_query(self._failures))


def _end(source: Any) -> dict[Any, int]:
    return offsets(source.get("endOffset"))


def _latest(source: Any) -> dict[Any, int]:
    return offsets(source.get("latestOffset"))


def _by_query(counts: Counter[str]) -> list[tuple[tuple[str], float]]:
    return [((name,), count) for name, count in list(counts.items())]
