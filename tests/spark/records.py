"""What the tests of Spark send, delete and read."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from tidelog.client.admin import Leader
from tidelog.shell.transport import Admin, Consumer, Producer
from tidelog.wire.messages.records.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.topics.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.topics.metadata import MetadataRequest, MetadataRequestTopic

TIMEOUT_MS = 30_000
WITHIN_S = 120


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


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
    until = time.monotonic() + WITHIN_S
    with Admin(bootstrap) as admin:
        for broker in admin.ask(MetadataRequest(topics=[])).brokers:
            while not holds(admin.ask(asked, broker.node_id).topics[0]):
                assert time.monotonic() < until, topic
                time.sleep(0.01)


def in_sync(bootstrap: str, topic: str, copies: int) -> None:
    """Wait until each partition has so many replicas in sync."""
    everywhere(bootstrap, topic, lambda found: all(len(each.isr_nodes) == copies for each in found.partitions))


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
