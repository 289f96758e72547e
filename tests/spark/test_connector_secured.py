"""Source, sink and mirror on clusters of `--secure`: TLS, passwords and an authorizer, with other credentials at the other
end of the mirror."""

import pytest

from tests.spark.records import numbers
from tidelog.client.options import ConsumerOptions, ProducerOptions
from tidelog.client.properties import keywords
from tidelog.shell.transport import Consumer, Producer
from tidelog.spark.options import BadOption
from tidelog.spark.pipelines.mirror import PIPELINE
from tidelog.spark.pipelines.plan import Plan
from tidelog.spark.pipelines.running import run
from tidelog.testing import Cluster

ROWS = 200


@pytest.fixture(scope="module")
def clusters():
    with Cluster(brokers=1, secure=True) as home, Cluster(brokers=1, secure=True) as away:
        yield home, away


def options_of(cluster):
    return {f"kafka.{name}": text for name, text in cluster.security.client_options().items()}


def test_a_batch_and_a_stream_are_written_once_and_read_back(spark, clusters, tmp_path):
    home, _ = clusters
    options = {"kafka.bootstrap.servers": home.bootstrap, **options_of(home)}
    frame = spark.range(0, ROWS, 1, 2).selectExpr("cast(id as string) as value")
    frame.write.format("tidelog").mode("append").options(**options, topic="rows", exactlyOnce="true").save()
    rows = spark.readStream.format("tidelog").options(**options, subscribe="rows", startingOffsets="earliest").load()
    writer = rows.select("value").writeStream.format("tidelog").options(**options, topic="copy", exactlyOnce="true")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(240)
    reading = {**options, "subscribe": "copy", "kafka.isolation.level": "read_committed"}
    found = spark.read.format("tidelog").options(**reading).load().collect()
    assert sorted(int(row.value) for row in found) == list(range(ROWS))


def test_a_mirror_has_other_credentials_at_its_other_end(spark, clusters, tmp_path):
    home, away = clusters
    home.create_topic("home")
    with Producer(home.bootstrap, **keywords(ProducerOptions, home.security.client_options())) as producer:
        for value in numbers(0, 5):
            producer.send("home", value)
        assert all(delivery.is_acknowledged for delivery in producer.flush())
    given = PIPELINE.complete({"topics": "home", "prefix": "copy.", "to": away.bootstrap})
    kafka = options_of(home)
    plan = Plan(home.bootstrap, tmp_path / "right", given, kafka, away=options_of(away), once=True)
    run(PIPELINE.stages(spark, plan), once=True, on_progress=lambda _: None)
    options = keywords(ConsumerOptions, away.security.client_options())
    with Consumer(
        away.bootstrap, options.pop("group_id"), **{**options, "isolation_level": "read_committed"}
    ) as reader:
        places = reader.partitions_of("copy.home")
        reader.assign(places)
        reader.seek_to_beginning(places)
        found = []
        while len(found) < 5:
            records = reader.poll(60)
            assert records
            found += [record.value for record in records]
    assert found == numbers(0, 5)
    mixed = Plan(home.bootstrap, tmp_path / "wrong", given, kafka, away=kafka, once=True)
    with pytest.raises(BadOption, match="is not trusted"):
        PIPELINE.stages(spark, mixed)
