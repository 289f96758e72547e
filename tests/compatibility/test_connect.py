"""Kafka Connect and MirrorMaker 2, as Kafka 4.3.1 has them, on Tidelog: a distributed worker with a source that writes
exactly once, though it is killed, and a sink; and a mirror from one cluster to another. docs/clients.md has the results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.compatibility.clients.workers import STARTS_WITHIN_S, Rest, Worker
from tests.conftest import KAFKA_VERSION
from tests.ports import free_ports
from tests.processes import Processes
from tests.spark.records import make_topic
from tests.waiting import wait_for
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.wire import records
from tidelog.wire.messages.configs.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.topics.metadata import MetadataRequest

LINES = 300
CLASSES = "org.apache.kafka.connect.file.FileStream{}Connector"
TEXT = "org.apache.kafka.connect.storage.StringConverter"
QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


def stored(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values that a reader of committed records gets, to the end of partition 0."""
    found: list[bytes | None] = []
    with Consumer(bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        (end,) = consumer.end_offsets([(topic, 0)]).values()
        while consumer.position((topic, 0)) < end:
            found += [record.value for record in consumer.poll(1)]
    return found


def batches(bootstrap: str, topic: str) -> list[records.BatchHeader]:
    """Those of the first fetch."""
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        return [batch for each in consumer.poll_whole(60) for batch in records.batches(each.raw)]


def lines(first: int, end: int) -> list[bytes]:
    return [b"line %d" % number for number in range(first, end)]


def append(file: Path, content: list[bytes]) -> None:
    with file.open("ab") as target:
        target.write(b"".join(line + b"\n" for line in content))


def test_a_distributed_worker_with_an_exactly_once_source(
    cluster: Any, kafka_libs: str, tmp_path: Path, kept: Callable[..., None]
) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    append(source, lines(0, LINES))
    (port,) = free_ports(1)
    make_topic(cluster.bootstrap, 1, name="from-a-file", replicas=3)
    properties = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "connect",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "scheduled.rebalance.max.delay.ms": "0",
        "offset.flush.interval.ms": "500",
        **{f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
    }
    with Worker(kafka_libs, tmp_path, "cli.ConnectDistributed", properties) as worker:
        rest = Rest(worker, port)
        version = wait_for(lambda: rest.ask("/"), "the worker answers", STARTS_WITHIN_S)["version"]
        rest.run(
            "source", connector_class=CLASSES.format("Source"), file=str(source), topic="from-a-file",
            exactly_once_support="required",
        )  # fmt: skip
        rest.run("sink", connector_class=CLASSES.format("Sink"), file=str(target), topics="from-a-file", tasks_max="1")
        wait_for(lambda: len(stored(cluster.bootstrap, "from-a-file")) == LINES, "all lines", STARTS_WITHIN_S)
        worker.kill()
        append(source, lines(LINES, 2 * LINES))
        worker.start()
        for name in ("source", "sink"):
            rest.await_running(name)
        wait_for(lambda: len(stored(cluster.bootstrap, "from-a-file")) >= 2 * LINES, "the later lines", STARTS_WITHIN_S)
        wait_for(lambda: set(target.read_bytes().splitlines()) == set(lines(0, 2 * LINES)), "the sink", STARTS_WITHIN_S)
    assert stored(cluster.bootstrap, "from-a-file") == lines(0, 2 * LINES)
    assert all(batch.is_transactional for batch in batches(cluster.bootstrap, "from-a-file"))
    features = (
        "a distributed worker keeps its connectors, offsets and status in topics, and continues after SIGKILL",
        "a source with exactly-once support writes each line of a file once, in transactions, in spite of the SIGKILL",
        "a sink writes each record of a topic to a file, at least once",
    )
    kept("Kafka Connect", {"version": version, "features": dict.fromkeys(features, "ok")})


def test_a_mirror_between_two_clusters(kafka_libs: str, tmp_path: Path, kept: Callable[..., None]) -> None:
    with (
        Processes(tmp_path / "one", brokers=1, port=0, overrides=QUICK) as one,
        Processes(tmp_path / "two", brokers=1, port=0, overrides=QUICK) as two,
    ):
        make_topic(one.bootstrap, 1, name="flights", retention_ms="7200000")
        with Producer(one.bootstrap) as producer:
            for line in lines(0, LINES):
                producer.send("flights", line, key=b"key", headers=[("name", b"header")], partition=0)
            producer.flush()
        with Consumer(one.bootstrap, group="readers") as consumer:
            consumer.commit({("flights", 0): LINES})
        with Worker(kafka_libs, tmp_path, "mirror.MirrorMaker", _mirror(one.bootstrap, two.bootstrap)) as worker:

            def mirrored(count: int) -> bool:
                worker.check()
                return "one.flights" in _topics(two.bootstrap) and len(stored(two.bootstrap, "one.flights")) >= count

            wait_for(lambda: mirrored(LINES), "the records", STARTS_WITHIN_S)
            with Producer(one.bootstrap) as producer:
                producer.send("flights", b"later", partition=0)
                producer.flush()
            wait_for(lambda: mirrored(LINES + 1), "a later record", STARTS_WITHIN_S)
            wait_for(lambda: _committed(two.bootstrap) == LINES, "the group's offset", STARTS_WITHIN_S)
        assert stored(two.bootstrap, "one.flights") == [*lines(0, LINES), b"later"]
        with Consumer(two.bootstrap) as consumer:
            consumer.assign([("one.flights", 0)])
            consumer.seek_to_beginning()
            first = consumer.poll(60)[0]
        assert (first.key, list(first.headers)) == (b"key", [("name", b"header")])
        assert _retention(two.bootstrap) == "7200000"
    features = (
        "mirrors the records of a topic with keys and headers, also those that are written later",
        "mirrors the options of a topic",
        "translates the committed offsets of a group, and commits them in the other cluster",
    )
    kept("MirrorMaker 2", {"version": KAFKA_VERSION, "features": dict.fromkeys(features, "ok")})


def _mirror(one: str, two: str) -> dict[str, str]:
    seconds = ("refresh.topics", "refresh.groups", "emit.checkpoints", "sync.group.offsets", "sync.topic.configs")
    return {
        "clusters": "one, two",
        "one.bootstrap.servers": one,
        "two.bootstrap.servers": two,
        "one->two.enabled": "true",
        "two->one.enabled": "false",
        "two->one.emit.heartbeats.enabled": "false",
        "one->two.topics": "flights",
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": "0",
        "plugin.discovery": "service_load",
        "tasks.max": "1",
        "offset.flush.interval.ms": "500",
        "scheduled.rebalance.max.delay.ms": "0",
        **{f"{each}.interval.seconds": "1" for each in seconds},
        **{
            f"{kind}.replication.factor": "1"
            for kind in ("heartbeats.topic", "checkpoints.topic", "offset-syncs.topic")
        },
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.partitions": "1" for kind in ("offset", "status")},
        "replication.factor": "1",
    }


def _topics(bootstrap: str) -> set[str]:
    with Admin(bootstrap) as admin:
        return {each.name for each in admin.ask(MetadataRequest(topics=None)).topics}


def _committed(bootstrap: str) -> int:
    with Consumer(bootstrap, group="readers") as consumer:
        return next((found.offset for found in consumer.committed([("one.flights", 0)]).values()), -1)


def _retention(bootstrap: str) -> str | None:
    wanted = DescribeConfigsResource(resource_type=2, resource_name="one.flights", configuration_keys=["retention.ms"])
    with Admin(bootstrap) as admin:
        (found,) = admin.ask(DescribeConfigsRequest(resources=[wanted])).results
    value: str | None = found.configs[0].value
    return value
