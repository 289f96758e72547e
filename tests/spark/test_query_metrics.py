"""The metrics of streaming queries: what Prometheus reads while they run, and after they ended."""

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.spark.records import create, numbers, send, unique
from tests.waiting import wait_for
from tidelog.spark.progress import behind
from tidelog.spark.query_metrics import QueryMetrics

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana" / "spark.json"


class Recording(QueryMetrics):
    """Keeps the page after each batch."""

    def __init__(self, registry):
        super().__init__(registry)
        self.registry = registry
        self.pages = []

    def onQueryProgress(self, event):  # noqa: N802  Spark's name
        super().onQueryProgress(event)
        self.pages.append(self.page())

    def page(self):
        text = generate_latest(self.registry).decode()
        return {name: float(number) for name, number in re.findall(r"^([a-z].*) (\S+)$", text, re.MULTILINE)}

    def after(self, query):
        """The page without the query, which has ended."""
        gone = f'spark_streaming_batch{{query="{query}"}}'
        wait_for(lambda: self.pages and gone not in self.page(), f"{query} is over")
        return self.page()


def positions(page, topic):
    """The values of both partitions, by the end of the metric's name."""
    found = {}
    for series, value in sorted(page.items()):
        if f'topic="{topic}"' in series:
            found.setdefault(series.partition("{")[0].removeprefix("spark_streaming_"), []).append(value)
    return found


@pytest.fixture
def metrics(spark):
    listener = Recording(CollectorRegistry())
    spark.streams.addListener(listener)
    yield listener
    spark.streams.removeListener(listener)


def test_offsets_behind_latest_are_exported_for_each_partition(spark, tides, tmp_path, metrics):
    topic, name = create(tides, "behind", 2), unique("metered")
    send(tides.bootstrap, topic, numbers(0, 8), 0)
    send(tides.bootstrap, topic, numbers(0, 4), 1)

    def run(kind, topic, **options):
        rows = spark.readStream.format(kind).option("kafka.bootstrap.servers", tides.bootstrap)
        rows = rows.option("subscribe", topic).option("startingOffsets", "earliest").options(**options).load()
        query = rows.writeStream.format("noop").queryName(f"{name}-{kind}").trigger(availableNow=True)
        query.option("checkpointLocation", str(tmp_path / kind)).start().awaitTermination()

    for kind in ("tidelog", "kafka"):  # Spark's own connector reports the same
        metrics.pages.clear()
        run(kind, topic, maxOffsetsPerTrigger="6")
        ended = metrics.after(f"{name}-{kind}")
        pages = [positions(page, topic) for page in (metrics.pages[0], metrics.pages[-1])]
        assert [page["offsets_behind_latest"] for page in pages] == [[4, 2], [0, 0]]
        assert pages[-1]["end_offset"] == pages[-1]["latest_offset"] == [8, 4]
        last = metrics.pages[-1]
        assert last[f'spark_streaming_batch{{query="{name}-{kind}"}}'] >= 1
        assert last[f'spark_streaming_batch_duration_seconds{{query="{name}-{kind}"}}'] > 0
        assert ended[f'spark_streaming_rows_total{{query="{name}-{kind}"}}'] == 12
        assert ended[f'spark_streaming_failures_total{{query="{name}-{kind}"}}'] == 0
    told = {each.partition("{")[0] for page in (last, ended) for each in page}
    with pytest.raises(Exception, match="the checkpoint is of topic"):
        run("tidelog", create(tides, "another"))
    failed = f'spark_streaming_failures_total{{query="{name}-tidelog"}}'
    wait_for(lambda: metrics.page()[failed] == 1, "the failure is counted")
    panels = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    named = set(re.findall(r"spark_\w+", " ".join(panels)))
    assert named == {each for each in told if not each.endswith("_created")} - {"spark_streaming_batch"}


def test_sources_without_partitions_have_no_offsets():
    assert behind({"endOffset": "7", "latestOffset": "9"}) == {}
    assert behind({"endOffset": "null", "latestOffset": None}) == {}
    assert behind({"endOffset": "null", "latestOffset": '{"t": {"0": 5}, "@ids": {"t": "x"}, "logOffset": 3}'}) == {
        ("t", 0): 5
    }
