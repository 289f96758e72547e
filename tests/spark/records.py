"""What the tests of Spark send, delete and read."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from tests.waiting import wait_for
from tidelog.client.admin import Leader
from tidelog.errors import ErrorCode
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.testing import Cluster
from tidelog.wire.messages.records.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.topics.topic_changes import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

TIMEOUT_MS = 30_000

_numbers = count()


def unique(stem: str = "topic") -> str:
    """A name that no other test takes, of a topic, a group or whatever else the tests share a cluster for."""
    return f"{stem}-{next(_numbers)}"


def make_topic(bootstrap: str, partitions: int = 1, *, replicas: int = 1, name: str = "", **configs: str) -> str:
    """A topic, with a name of its own unless one is given, whose leaders answer. Where a topic of this name was deleted
    the name is free again a little later."""
    name = name or unique()
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=given)
    with Admin(bootstrap) as admin:

        def is_made() -> bool:
            code = admin.ask(CreateTopicsRequest(topics=[wanted])).topics[0].error_code
            assert code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS), ErrorCode(code)
            return code == ErrorCode.NONE

        wait_for(is_made, f"topic {name} is made")
    led(bootstrap, name)
    return name


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def create(cluster: Cluster, stem: str, partitions: int = 1, **options: object) -> str:
    """A topic on all brokers of a cluster in this process; its name begins like this."""
    name = unique(stem)
    cluster.create_topic(name, partitions, **options)
    return name


def send(bootstrap: str, topic: str, values: Sequence[bytes | None], partition: int = 0, **more: Any) -> None:
    with Producer(bootstrap) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, **more)
        assert all(delivery.is_acknowledged for delivery in producer.flush())


def delete_before(bootstrap: str, topic: str, offset: int) -> None:
    """Move the start of partition 0 forward."""
    wanted = [DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])]
    with Admin(bootstrap) as admin:
        answer = admin.ask(DeleteRecordsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), Leader(topic, 0))
    assert answer.topics[0].partitions[0].error_code == 0, answer


def everywhere(bootstrap: str, topic: str, holds: Callable[[Any], bool]) -> None:
    """Wait until it holds of the topic as every broker that runs tells it: they learn of a change one after the other."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with Admin(bootstrap) as admin:
        for node in [broker.node_id for broker in admin.ask(MetadataRequest(topics=[])).brokers]:
            what = f"broker {node} knows of the change of {topic}"
            wait_for(lambda node=node: holds(admin.ask(asked, node).topics[0]), what)


def in_sync(bootstrap: str, topic: str, copies: int) -> None:
    """Wait until each partition has so many replicas in sync."""
    everywhere(bootstrap, topic, lambda found: {len(each.isr_nodes) for each in found.partitions} == {copies})


def led(bootstrap: str, topic: str) -> None:
    """Wait until the leader of each partition answers. A Kafka tells of one before it leads; of several batches that are
    sent at once the first may be refused then and a later one taken, which a producer that is new to it cannot mend."""
    with Consumer(bootstrap) as consumer:
        consumer.end_offsets(consumer.partitions_of(topic))


def delete_topic(bootstrap: str, topic: str) -> None:
    """No broker knows it any more when this returns."""
    with Admin(bootstrap) as admin:
        wanted = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=TIMEOUT_MS)
        assert admin.ask(wanted).responses[0].error_code == 0
    everywhere(bootstrap, topic, lambda found: not found.partitions)


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Grow the topic to so many partitions; all have leaders when this returns."""
    with Admin(bootstrap) as admin:
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        answer = admin.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS))
    assert answer.results[0].error_code == 0, answer
    everywhere(bootstrap, topic, lambda found: [each.leader_id >= 0 for each in found.partitions] == [True] * count)
    led(bootstrap, topic)


def values(frame: Any) -> list[int]:
    """The values as numbers, in order."""
    return sorted(int(row.value) for row in frame.select("value").collect())
